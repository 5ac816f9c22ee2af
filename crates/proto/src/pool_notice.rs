//! Births and ends of named objects, as the nodes of a pool tell each other and their programs.

use serde::{Deserialize, Serialize};

use crate::id::{Name, ObjectId};
use crate::limits::{NAME_BYTES_MAX, NAMESPACE_BYTES_MAX};
use crate::pool::Birth;

/// Something happened to a named object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolNotice {
    /// The object.
    pub id: ObjectId,
    /// Its incarnation.
    pub birth: Birth,
    /// Its name.
    pub name: Name,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Bytes of its metadata.
    pub metadata_bytes: u64,
    /// Whether it came to exist; else it was deleted.
    pub is_born: bool,
}

/// Which objects a program wants to hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamesFilter {
    /// Those of this namespace.
    pub namespace: String,
    /// How the text of the name starts.
    pub prefix: String,
}

impl PoolNotice {
    /// Whether its name keeps the rules, and may be that of its id.
    pub fn is_valid(&self) -> bool {
        let Self { id, name, .. } = self;
        let has_id = !name.is_pooled() || name.is_of(id);
        name.check().is_ok() && has_id
    }
}

impl NamesFilter {
    /// Whether any name could pass.
    pub fn keeps_limits(&self) -> bool {
        self.namespace.len() <= NAMESPACE_BYTES_MAX && self.prefix.len() <= NAME_BYTES_MAX
    }

    /// Whether an object of this name passes.
    pub fn matches(&self, name: &Name) -> bool {
        self.namespace == name.namespace && name.text.starts_with(&self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::limits::FRAME_BYTES_MAX;
    use crate::message::{NAMED_NOTICES_MAX, NamedNotice, Notice, Push};
    use crate::object::ObjectState;
    use crate::pool::Slot;

    fn notice() -> PoolNotice {
        let name = Name::new("@prod", "t").unwrap();
        let birth = Birth { slot: Slot(3), boot: 4, serial: 300 };
        let (data_bytes, metadata_bytes) = (300, 1);
        PoolNotice { id: name.id(), birth, name, data_bytes, metadata_bytes, is_born: true }
    }

    #[test]
    fn a_name_is_the_one_of_its_id_and_of_the_namespace_and_prefix() {
        let right = notice();
        assert!(right.is_valid());
        let other = Name::new("@prod", "other").unwrap();
        assert!(!PoolNotice { name: other, ..right.clone() }.is_valid());
        let empty = Name { namespace: String::new(), text: String::new() };
        assert!(!PoolNotice { name: empty, ..right.clone() }.is_valid());
        for (namespace, prefix, passes) in
            [("@prod", "", true), ("@prod", "t", true), ("@prod", "x", false), ("@pro", "", false)]
        {
            let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
            let filter = NamesFilter { namespace, prefix };
            assert!(filter.keeps_limits());
            assert_eq!(filter.matches(&right.name), passes, "{filter:?}");
        }
        let long = NamesFilter { prefix: "x".repeat(NAME_BYTES_MAX + 1), ..NamesFilter::default() };
        assert!(!long.keeps_limits());
    }

    #[test]
    fn the_longest_push_fits_a_frame_and_its_bytes_are_a_format() {
        let id = ObjectId::pooled([7; 12], None);
        let named = |text: String| {
            let (state, data_bytes, metadata_bytes) = (ObjectState::Sealed, 300, 1);
            let notice = Notice { id, state, data_bytes, metadata_bytes };
            NamedNotice { notice, name: Name { namespace: "@n".to_owned(), text } }
        };
        let long = NamedNotice {
            name: Name {
                namespace: "@".repeat(NAMESPACE_BYTES_MAX),
                text: "x".repeat(NAME_BYTES_MAX),
            },
            notice: Notice {
                data_bytes: u64::MAX,
                metadata_bytes: u64::MAX,
                ..named(String::new()).notice
            },
        };
        let push = Push::NamedNotices(vec![long; NAMED_NOTICES_MAX]);
        assert!(frame::encode_push(&push).unwrap().len() <= FRAME_BYTES_MAX);
        let bytes =
            postcard::to_allocvec(&Push::NamedNotices(vec![named("t".to_owned())])).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let state = ObjectState::Sealed as u8;
        let id_hex = "070707070707070707070707ffff40706f6f6c00";
        assert_eq!(hex, format!("0301{id_hex}{state:02x}ac020102406e0174"));
    }
}
