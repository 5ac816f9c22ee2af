//! What only some objects have: a name, a time to live, members, holders.

use plasmon_proto::Attributes;

/// The rarer properties of one object in memory, kept beside its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rare {
    pub(crate) attributes: Attributes,
    /// How long its creator took to seal it.
    pub(crate) construct_ms: u64,
    /// When it deletes itself.
    pub(crate) expires_ms: Option<u64>,
    /// How often it is a member of composite objects.
    pub(crate) holders: u32,
}

impl Rare {
    /// The form in which it is kept: not at all where there is nothing.
    pub(crate) fn kept(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}
