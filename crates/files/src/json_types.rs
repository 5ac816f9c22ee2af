//! The columns of JSON: an array of objects, or an object in each line; what is there decides.
//!
//! The types are those of all rows, because a column that is of another type in the last row than
//! in the first ones could not be read. Columns come in the order in which they first appear.

use std::fmt;
use std::io::BufRead;

use arrow_schema::{DataType, Field, Fields, Schema};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::error::{self, Error};

/// The type of a column's values so far.
#[derive(Debug, Default, PartialEq)]
enum InferredType {
    #[default]
    Nothing,
    Switch,
    Integer {
        negative: bool,
        /// Whether one is too large for 64 bits with a sign.
        large: bool,
    },
    Real,
    Text,
    List(Box<InferredType>),
    Object(Vec<(String, InferredType)>),
}

impl InferredType {
    fn key(&self) -> &'static str {
        match self {
            Self::Nothing => "null",
            Self::Switch => "true or false",
            Self::Integer { .. } | Self::Real => "a number",
            Self::Text => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Takes another value of the same column.
    fn add(&mut self, other: Self) -> Result<(), String> {
        *self = match (std::mem::take(self), other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (Self::Integer { negative: a, large: b }, Self::Integer { negative: c, large: d }) => {
                Self::Integer { negative: a || c, large: b || d }
            }
            (Self::Real | Self::Integer { .. }, Self::Real | Self::Integer { .. }) => Self::Real,
            (Self::List(mut one), Self::List(other)) => {
                one.add(*other)?;
                Self::List(one)
            }
            (Self::Object(mut fields), Self::Object(others)) => {
                for (key, found) in others {
                    add_field(&mut fields, key, found)?;
                }
                Self::Object(fields)
            }
            (one, other) if one == other => one,
            (one, other) => {
                return Err(format!("{} in one row and {} in another", one.key(), other.key()));
            }
        };
        Ok(())
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Nothing => DataType::Null,
            Self::Switch => DataType::Boolean,
            Self::Integer { large: false, .. } => DataType::Int64,
            Self::Integer { negative: false, .. } => DataType::UInt64,
            // Neither type of 64 bits holds both, and a float would change their last digits.
            Self::Integer { .. } => DataType::Decimal128(20, 0),
            Self::Real => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(item) => DataType::new_list(item.data_type(), true),
            Self::Object(fields) => DataType::Struct(columns(fields)),
        }
    }
}

fn columns(fields: &[(String, InferredType)]) -> Fields {
    fields.iter().map(|(name, found)| Field::new(name, found.data_type(), true)).collect()
}

fn add_field(
    fields: &mut Vec<(String, InferredType)>,
    key: String,
    found: InferredType,
) -> Result<(), String> {
    // Rows mostly have the same keys in the same order; a table has few of them.
    let field = match fields.iter().position(|(name, _)| *name == key) {
        Some(at) => &mut fields[at],
        None => {
            fields.push((key, InferredType::Nothing));
            fields.last_mut().expect("pushed")
        }
    };
    field.1.add(found).map_err(|detail| format!("\"{}\" is {detail}", field.0))
}

impl<'de> Deserialize<'de> for InferredType {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = InferredType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<InferredType, E> {
        Ok(InferredType::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<InferredType, E> {
        Ok(InferredType::Switch)
    }

    fn visit_i64<E>(self, value: i64) -> Result<InferredType, E> {
        Ok(InferredType::Integer { negative: value < 0, large: false })
    }

    fn visit_u64<E>(self, value: u64) -> Result<InferredType, E> {
        Ok(InferredType::Integer { negative: false, large: i64::try_from(value).is_err() })
    }

    fn visit_f64<E>(self, _: f64) -> Result<InferredType, E> {
        Ok(InferredType::Real)
    }

    fn visit_str<E>(self, _: &str) -> Result<InferredType, E> {
        Ok(InferredType::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<InferredType, A::Error> {
        let mut all = InferredType::Nothing;
        while let Some(item) = items.next_element()? {
            all.add(item).map_err(serde::de::Error::custom)?;
        }
        Ok(InferredType::List(Box::new(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<InferredType, A::Error> {
        let mut all = Vec::new();
        while let Some((key, found)) = fields.next_entry()? {
            add_field(&mut all, key, found).map_err(serde::de::Error::custom)?;
        }
        Ok(InferredType::Object(all))
    }
}

/// Takes an object, or an array of objects, into what was found before.
struct Rows<'a>(&'a mut InferredType);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row, which is an object such as {\"x\": 1}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        while let Some(row) = rows.next_element::<InferredType>()? {
            if !matches!(row, InferredType::Object(_)) {
                let detail = format!("a row is {}, not an object such as {{\"x\": 1}}", row.key());
                return Err(serde::de::Error::custom(detail));
            }
            self.0.add(row).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<(), A::Error> {
        let row = ValueVisitor.visit_map(fields)?;
        self.0.add(row).map_err(serde::de::Error::custom)
    }
}

/// The columns of the rows of a file, or of several that are read as one table.
#[derive(Debug)]
pub(crate) struct Columns(InferredType);

impl Columns {
    /// Reads a file to its end.
    pub(crate) fn of(text: impl BufRead) -> error::Result<Self> {
        let mut found = InferredType::Nothing;
        let mut values = serde_json::Deserializer::from_reader(text);
        while values.end().is_err() {
            Rows(&mut found).deserialize(&mut values)?;
        }
        match &found {
            InferredType::Object(fields) if !fields.is_empty() => Ok(Self(found)),
            _ => Err(Error::NoRows),
        }
    }

    /// Takes the rows of another file.
    pub(crate) fn merge(&mut self, other: Self) -> error::Result<()> {
        let detail = |detail: String| Error::OtherTypes { detail };
        self.0.add(other.0).map_err(detail)
    }

    /// The types that hold all values.
    pub(crate) fn schema(&self) -> Schema {
        match &self.0 {
            InferredType::Object(fields) => Schema::new(columns(fields)),
            _ => Schema::empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(text: &str) -> Vec<(String, DataType)> {
        let schema = Columns::of(text.as_bytes()).unwrap().schema();
        let named =
            |field: &std::sync::Arc<Field>| (field.name().clone(), field.data_type().clone());
        schema.fields().iter().map(named).collect()
    }

    #[test]
    fn arrays_and_lines_have_the_same_columns_in_the_order_in_which_they_appear() {
        let wanted = [
            ("z", DataType::Float64),
            ("a", DataType::Utf8),
            ("o", DataType::Struct(Fields::from(vec![Field::new("k", DataType::Boolean, true)]))),
            ("l", DataType::new_list(DataType::Int64, true)),
            ("u", DataType::UInt64),
        ];
        let wanted = wanted.map(|(name, data_type)| (name.to_owned(), data_type));
        let one = r#"{"z": 1, "a": null, "o": {"k": true}, "l": []}"#;
        let two = r#"{"a": "x", "z": 1.5, "l": [1], "u": 18446744073709551615}"#;
        assert_eq!(types(&format!("{one}\n{two}\n")), wanted);
        assert_eq!(types(&format!("[{one},\n {two}]")), wanted);
    }

    #[test]
    fn whole_numbers_keep_their_digits() {
        for (text, wanted) in [
            ("{\"x\": 9223372036854775807}", DataType::Int64),
            ("{\"x\": 9223372036854775808}", DataType::UInt64),
            ("[{\"x\": -1}, {\"x\": 18446744073709551615}]", DataType::Decimal128(20, 0)),
            ("[{\"x\": -1}, {\"x\": 0.5}]", DataType::Float64),
        ] {
            assert_eq!(types(text), [("x".to_owned(), wanted)]);
        }
    }

    #[test]
    fn values_that_are_not_a_table_are_named() {
        for (text, detail) in [
            ("", "no rows"),
            ("[]", "no rows"),
            ("[1, 2]", "a row is a number"),
            ("3", "a row"),
            ("{\"x\": 1}\n{\"x\": \"a\"}", "\"x\" is a number in one row and a string"),
            ("{\"x\": 1}\n{\"x\":", "EOF"),
        ] {
            let found = Columns::of(text.as_bytes()).unwrap_err().to_string();
            assert!(found.contains(detail), "{text}: {found}");
        }
    }
}
