//! The names of partitions.

use plasmon_proto::Name;
use plasmon_proto::id::BadName;

/// The name of one partition of `count`: that of the result where it is the only one, else with its
/// number.
pub fn partition_name(result: &Name, at: usize, count: usize) -> Result<Name, BadName> {
    if count == 1 {
        return Ok(result.clone());
    }
    Name::new(result.namespace.clone(), format!("{}/{at:04}", result.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_numbers_unless_there_is_one() {
        let result = Name::new("n", "sales").unwrap();
        assert_eq!(partition_name(&result, 0, 1).unwrap(), result);
        assert_eq!(partition_name(&result, 3, 12).unwrap(), Name::new("n", "sales/0003").unwrap());
        assert_eq!(partition_name(&result, 4095, 4096).unwrap().text, "sales/4095");
        let long = Name::new("", "x".repeat(plasmon_proto::limits::NAME_BYTES_MAX)).unwrap();
        assert!(partition_name(&long, 0, 1).is_ok());
        assert!(partition_name(&long, 0, 2).is_err());
    }
}
