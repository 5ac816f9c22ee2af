//! Which objects a filter lets through.

use plasmon_proto::Name;
use plasmon_proto::message::Filter;

/// Whether an object of this name passes. One without a name passes only the empty filter.
pub(crate) fn matches(filter: &Filter, name: Option<&Name>) -> bool {
    let Some(name) = name else { return *filter == Filter::default() };
    filter.namespace.as_ref().is_none_or(|wanted| *wanted == name.namespace)
        && filter.prefix.as_ref().is_none_or(|prefix| name.text.starts_with(prefix.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_and_prefix_narrow_and_nothing_lets_everything_through() {
        let filter = |namespace: Option<&str>, prefix: Option<&str>| Filter {
            namespace: namespace.map(str::to_owned),
            prefix: prefix.map(str::to_owned),
        };
        let name = Name::new("prices", "2024/eur").unwrap();
        for (wanted, named, unnamed) in [
            (filter(None, None), true, true),
            (filter(Some("prices"), None), true, false),
            (filter(Some(""), None), false, false),
            (filter(None, Some("2024/")), true, false),
            (filter(None, Some("")), true, false),
            (filter(Some("prices"), Some("2025")), false, false),
        ] {
            assert_eq!(matches(&wanted, Some(&name)), named, "{wanted:?}");
            assert_eq!(matches(&wanted, None), unnamed, "{wanted:?}");
        }
    }
}
