//! The parts of one object before it has a place: its checked options and its bytes.

use std::time::Duration;

use plasmon_proto::extent::Placement;
use plasmon_proto::limits::{ATTRIBUTES_BYTES_MAX, COPIES_MAX, MEMBERS_MAX, OBJECT_BYTES_MAX};
use plasmon_proto::object::{Attributes, CopyPlacement, Durability, PoolAttributes, Sizes, Traits};
use plasmon_proto::ring::Put;
use plasmon_proto::{Code, ObjectId, Policy};

use crate::error::{Error, Result};
use crate::options::{Ack, PutOptions};

/// How many nodes keep a copy of an object in a pool, unless its creator says so: of one with a
/// name, and of one without.
const COPIES: u8 = 2;
const COPIES_UNNAMED: u8 = 1;

/// The parts of an object in the order in which they lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) data: &'a [&'a [u8]],
    pub(crate) metadata: &'a [u8],
    pub(crate) attributes: &'a [u8],
}

impl<'a> Payload<'a> {
    /// The pieces that have bytes, each with its distance from the object's start.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let tail = [self.metadata, self.attributes];
        let mut at = 0;
        self.data.iter().copied().chain(tail).filter(|piece| !piece.is_empty()).map(move |piece| {
            let start = at;
            at += piece.len();
            (start, piece)
        })
    }
}

/// Options that were checked, with what follows from them.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The id that the caller chose, by itself or by a name; `None` leaves it to the client.
    pub(crate) chosen: Option<ObjectId>,
    /// Whether an object that has this id is replaced.
    pub(crate) replace: bool,
    /// Whether the client is to make a pooled id.
    pub(crate) needs_id: bool,
    /// Whether a put waits until the pool has accepted an object that is seen before that.
    pub(crate) settles: bool,
    /// Whether the pool is to have accepted the members before.
    pub(crate) settles_members: bool,
    /// How many nodes of a pool are to keep it at least.
    pub(crate) copies_min: Option<u8>,
    /// Whether it is to be in the store's log before it is seen. An object of a pool is not: the
    /// pool decides which nodes have it in their logs.
    pub(crate) durable: bool,
    pub(crate) traits: Traits,
    pub(crate) attributes: Vec<u8>,
    pub(crate) sizes: Sizes,
    /// The bytes that the object takes, with its padding.
    pub(crate) footprint: u64,
}

impl Plan {
    /// The object when it has this id and lies there.
    #[inline]
    pub(crate) fn put(&self, id: ObjectId, placement: Placement) -> Put {
        Put { id, placement, sizes: self.sizes, traits: self.traits }
    }

    /// Checks the options for an object with so much data.
    pub(crate) fn new(doing: &'static str, data: u64, options: &PutOptions) -> Result<Self> {
        let chosen = chosen_id(doing, options)?;
        let needs_id = options.pool && chosen.is_none();
        let is_homed = needs_id || chosen.is_some_and(|id| id.home().is_some());
        let pool = pool_attributes(doing, options, chosen)?;
        let waits = pool.is_some_and(|pool| pool.copies > 1 || pool.is_durable());
        let settles = is_homed && options.ack.map_or(waits, |ack| ack == Ack::Copies);
        let durable = is_durable(options) && pool.is_none();
        let attributes = attributes(doing, options, pool)?;
        let sizes = Sizes {
            data,
            metadata: options.metadata.len() as u64,
            attributes: attributes.len() as u64,
        };
        let footprint = sizes.footprint().ok_or_else(|| {
            let error = Error::new(Code::TooLarge, doing).with_amounts(data, OBJECT_BYTES_MAX);
            chosen.into_iter().fold(error, Error::with_id)
        })?;
        let is_cache = pool.is_some_and(|pool| pool.class == Durability::Cache);
        let policy = if is_cache { Policy::Cache } else { options.policy };
        let traits = Traits { policy, tag: options.tag, owned: options.owned };
        let (replace, copies_min) = (options.replace, pool.map(|pool| pool.copies_min));
        let is_answered = settles || !is_homed && pool.is_some();
        let settles_members = is_answered && !options.members.is_empty();
        Ok(Self {
            chosen,
            replace,
            needs_id,
            settles,
            settles_members,
            copies_min,
            durable,
            traits,
            attributes,
            sizes,
            footprint,
        })
    }
}

fn chosen_id(doing: &'static str, options: &PutOptions) -> Result<Option<ObjectId>> {
    let Some(name) = &options.name else {
        return Ok(options.id);
    };
    let wrong = |detail: String| Error::new(Code::BadRequest, doing).with_detail(detail);
    name.check().map_err(|bad| wrong(bad.to_string()))?;
    match options.id {
        Some(other) if !name.is_of(&other) => {
            Err(wrong(format!("the name \"{name}\" does not have this id")).with_id(other))
        }
        Some(id) => Ok(Some(id)),
        None => Ok(Some(name.id())),
    }
}

/// What a pool is told of an object that is made for it.
fn pool_attributes(
    doing: &'static str,
    options: &PutOptions,
    chosen: Option<ObjectId>,
) -> Result<Option<PoolAttributes>> {
    let PutOptions { copies, copies_min, placement, .. } = *options;
    let refused = |code, detail| {
        let error = Error::new(code, doing).with_detail(detail);
        let error = chosen.into_iter().fold(error, Error::with_id);
        Err(error.naming(options.name.as_ref()))
    };
    let is_homed = chosen.is_some_and(|id| id.home().is_some());
    let is_named = chosen.is_some_and(|id| id.is_pooled()) && !is_homed;
    let is_pooled = is_named || is_homed || options.pool;
    check_members(doing, &options.members, is_pooled)?;
    if options.pool && !is_named && !is_homed && chosen.is_some() {
        let detail = "an object of a pool has a name that begins with @, or neither name nor id";
        return refused(Code::BadRequest, detail);
    }
    if !is_pooled {
        return match of_a_pool_alone(options) {
            Some(detail) => refused(Code::BadRequest, detail),
            None => Ok(None),
        };
    }
    if is_named && options.ack == Some(Ack::Local) {
        let detail = "an object with a name is seen after the pool has accepted it: a put of one \
                      is acknowledged with its copies";
        return refused(Code::BadRequest, detail);
    }
    if let Some(detail) = unsupported_in_a_pool(options) {
        return refused(Code::Unsupported, detail);
    }
    if copies > COPIES_MAX {
        return refused(Code::BadRequest, "an object of a pool has 1 to 8 copies");
    }
    if is_durable(options) && options.ack == Some(Ack::Local) {
        let detail = "a durable object of a pool is acknowledged when it is in the logs of its \
                      nodes: leave ack out";
        return refused(Code::BadRequest, detail);
    }
    let class = match class_of(options) {
        Ok(class) => class,
        Err(detail) => return refused(Code::BadRequest, detail),
    };
    let copies = match (copies, is_named && class != Durability::Cache) {
        (0, true) => COPIES,
        (0, false) => COPIES_UNNAMED,
        (copies, _) => copies,
    };
    let copies_min = if copies_min == 0 { copies - copies / 2 } else { copies_min };
    if copies_min > copies {
        return refused(
            Code::BadRequest,
            "copies_min is larger than copies, which is 2 unless given, or 1 without a name",
        );
    }
    let (origin, serial, owns_members) = (None, 0, options.owns_members);
    if !is_named {
        // Its id is never used again. What is as ever needs no attributes.
        let attributes =
            PoolAttributes { copies, copies_min, class, placement, origin, serial, owns_members };
        let is_plain = attributes == PoolAttributes::ONE;
        return Ok((!is_plain).then_some(attributes));
    }
    // So many bytes come at once and whole, once the machine has booted.
    let serial = plasmon_shm::edge::random().map(u64::from_le_bytes);
    let serial = serial.map_err(|error| Error::io(doing, error))?;
    Ok(Some(PoolAttributes { copies, copies_min, class, placement, origin, serial, owns_members }))
}

/// What an object of a pool is to survive.
fn class_of(options: &PutOptions) -> std::result::Result<Durability, &'static str> {
    let class = match (options.storage, options.policy) {
        (None | Some(Durability::Durable), Policy::Keep) if is_durable(options) => {
            Durability::Durable
        }
        _ if options.durable => {
            return Err("a durable object is kept, and its storage is durable: leave storage and \
                        policy out, or leave durable out");
        }
        (Some(Durability::Cache), _) | (None, Policy::Cache) => Durability::Cache,
        (Some(_), Policy::Cache) => {
            return Err("an object with policy cache may be evicted: its storage is cache");
        }
        (Some(class), Policy::Keep) => class,
        (None, Policy::Keep) => Durability::Memory,
    };
    if class == Durability::Cache && options.copies > 1 {
        return Err("a cache has one copy, which may be evicted: leave copies out, or choose \
                    storage memory");
    }
    if class == Durability::Cache && options.placement == CopyPlacement::Spread {
        return Err("a cache has its copy on this node: leave placement out, or choose storage \
                    memory");
    }
    Ok(class)
}

/// What the options of an object of one store ask for that a pool alone can do.
fn of_a_pool_alone(options: &PutOptions) -> Option<&'static str> {
    let PutOptions { copies, copies_min, ack, placement, storage, .. } = *options;
    if copies > 0 || copies_min > 0 {
        return Some(
            "only an object of a pool has copies: its name begins with @, or it is put with pool",
        );
    }
    if placement != CopyPlacement::Local {
        return Some(
            "only an object of a pool has a placement: its name begins with @, or it is put with \
             pool",
        );
    }
    if options.owns_members {
        return Some(
            "only an object of a pool says that it owns its members: put them with owned instead",
        );
    }
    if storage == Some(Durability::Cache) {
        return Some(
            "only an object of a pool has a storage: its name begins with @, or it is put with \
             pool. One of this store alone may be evicted with policy cache",
        );
    }
    ack.map(|_| {
        "only an object of a pool is acknowledged by it: its name begins with @, or it is put with \
         pool"
    })
}

/// The attributes of a member of an object of a pool that is put with these options: it has as many
/// copies.
pub(crate) fn member_attributes(doing: &'static str, options: &PutOptions) -> Result<Vec<u8>> {
    let pool = pool_attributes(doing, options, chosen_id(doing, options)?)?;
    let pool = pool.map(|pool| PoolAttributes { serial: 0, owns_members: false, ..pool });
    let pool = pool.filter(|pool| *pool != PoolAttributes::ONE);
    Ok(Attributes { pool, ..Attributes::default() }.encode())
}

/// What is found by all nodes consists of what all nodes find, and of nothing else: other objects
/// of this store cannot rely on what other nodes may delete.
fn check_members(doing: &'static str, members: &[ObjectId], is_pooled: bool) -> Result<()> {
    let is_wrong = |id: &&ObjectId| id.is_pooled() != is_pooled || is_pooled && id.home().is_none();
    let Some(member) = members.iter().find(is_wrong) else { return Ok(()) };
    let detail = match (is_pooled, member.is_pooled()) {
        (false, _) => {
            "a member is an object of a pool, which other nodes may delete: put the composite into \
             the pool as well, or put its data in one piece"
        }
        (true, false) => {
            "a member is an object of this store alone, which other nodes do not find: put it with \
             pool, without a name"
        }
        (true, true) => {
            "a member has a name of the pool, which may be put again with other content: put it \
             with pool, without a name"
        }
    };
    Err(Error::new(Code::Unsupported, doing).with_id(*member).with_detail(detail))
}

/// What the options ask for that no pool can do. The store refuses it, too, but only once the bytes
/// are there.
fn unsupported_in_a_pool(options: &PutOptions) -> Option<&'static str> {
    if options.ttl.is_some() {
        return Some("an object of a pool has no time to live: delete it when it is not needed");
    }
    if options.replace {
        return Some("an object of a pool cannot be replaced: delete the old one first");
    }
    if is_durable(options) && !options.members.is_empty() {
        return Some(
            "a composite of a pool cannot be durable yet: put the value as one object, or leave \
             durable out",
        );
    }
    if options.owned {
        return Some(
            "an object of a pool does not say that it is owned: put the object that it is a member \
             of with owns_members, or delete it when it is not needed",
        );
    }
    None
}

/// Whether the object is to outlive a loss of power.
fn is_durable(options: &PutOptions) -> bool {
    options.durable || options.storage == Some(Durability::Durable)
}

fn attributes(
    doing: &'static str,
    options: &PutOptions,
    pool: Option<PoolAttributes>,
) -> Result<Vec<u8>> {
    let PutOptions { name, ttl, members, .. } = options;
    // The class of an object of a pool says so.
    let durable = is_durable(options) && pool.is_none();
    if name.is_none() && ttl.is_none() && members.is_empty() && pool.is_none() && !durable {
        return Ok(Vec::new());
    }
    if durable && options.owned {
        let detail = "an object that is owned by a composite cannot be durable: leave one of the \
                      two out";
        return Err(Error::new(Code::Unsupported, doing).with_detail(detail));
    }
    if members.len() > MEMBERS_MAX {
        return Err(Error::new(Code::LimitReached, doing)
            .with_amounts(members.len() as u64, MEMBERS_MAX as u64)
            .with_detail("members of one object"));
    }
    let ttl_ms = ttl.map(|ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let (name, members) = (name.clone(), members.clone());
    let attributes = Attributes { name, ttl_ms, members, pool, durable };
    let encoded = attributes.encode();
    if encoded.len() > ATTRIBUTES_BYTES_MAX {
        return Err(Error::new(Code::LimitReached, doing)
            .with_amounts(encoded.len() as u64, ATTRIBUTES_BYTES_MAX as u64)
            .with_detail("bytes of attributes"));
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::Name;

    #[test]
    fn pieces_follow_each_other_and_empty_ones_vanish() {
        let data: [&[u8]; 4] = [b"ab", b"", b"c", b""];
        let payload = Payload { data: &data, metadata: b"", attributes: b"xyz" };
        let pieces: Vec<_> = payload.pieces().collect();
        assert_eq!(pieces, [(0, &b"ab"[..]), (2, b"c"), (3, b"xyz")]);
    }

    #[test]
    fn a_name_is_its_id_and_no_other() {
        let name = Name::new("", "prices").unwrap();
        let named = PutOptions { name: Some(name.clone()), ..PutOptions::default() };
        assert_eq!(Plan::new("putting", 1, &named).unwrap().chosen, Some(name.id()));
        let both = PutOptions { id: Some(name.id()), ..named.clone() };
        assert!(Plan::new("putting", 1, &both).is_ok());
        let clash = PutOptions { id: Some(ObjectId::new([1; 20])), ..named };
        assert_eq!(Plan::new("putting", 1, &clash).unwrap_err().code(), Code::BadRequest);
    }

    #[test]
    fn an_object_of_a_pool_says_how_many_copies_it_wants_and_draws_its_serial() {
        let name = Some(Name::new("", "@prod:sales").unwrap());
        let planned = |copies, copies_min, policy| {
            let name = name.clone();
            let options = PutOptions { name, copies, copies_min, policy, ..PutOptions::default() };
            let plan = Plan::new("putting", 1, &options)?;
            Ok::<_, Error>(Attributes::decode(&plan.attributes).unwrap().pool.unwrap())
        };
        let cases =
            [(0, 0, (2, 1)), (1, 0, (1, 1)), (3, 0, (3, 2)), (3, 1, (3, 1)), (8, 8, (8, 8))];
        for (copies, copies_min, expected) in cases {
            let pool = planned(copies, copies_min, Policy::Keep).unwrap();
            assert_eq!((pool.copies, pool.copies_min), expected);
            assert_eq!((pool.class, pool.origin), (Durability::Memory, None));
        }
        let (name_of, placement) = (name.clone(), CopyPlacement::Spread);
        let spread = PutOptions { name: name_of, placement, ..PutOptions::default() };
        let plan = Plan::new("putting", 1, &spread).unwrap();
        let pool = Attributes::decode(&plan.attributes).unwrap().pool.unwrap();
        assert_eq!((pool.copies, pool.copies_min, pool.placement), (2, 1, placement));
        let one = planned(1, 1, Policy::Cache).unwrap();
        assert_eq!(one.class, Durability::Cache);
        assert_ne!(one.serial, planned(1, 1, Policy::Cache).unwrap().serial);
        for (copies, copies_min) in [(9, 0), (9, 9), (2, 3), (0, 3)] {
            let error = planned(copies, copies_min, Policy::Keep).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest, "{copies} {copies_min}");
            assert!(error.to_string().contains("\"@prod:sales\""), "{error}");
        }
        let sales = Some(Name::new("", "sales").unwrap());
        for name in [None, sales] {
            let local = PutOptions { name, copies: 2, ..PutOptions::default() };
            let spread = PutOptions { copies: 0, placement, ..local.clone() };
            for options in [local, spread] {
                let error = Plan::new("putting", 1, &options).unwrap_err();
                assert_eq!(error.code(), Code::BadRequest);
            }
        }
    }

    #[test]
    fn an_object_of_a_pool_without_a_name_is_plain_unless_it_wants_more() {
        let pooled = PutOptions { pool: true, ..PutOptions::default() };
        let plan = Plan::new("putting", 1, &pooled).unwrap();
        assert_eq!((plan.chosen, plan.needs_id, plan.settles), (None, true, false));
        assert!(plan.attributes.is_empty());
        let cases = [
            (PutOptions { copies: 2, ..pooled.clone() }, true, (2, 1, Durability::Memory)),
            (
                PutOptions { copies: 3, ack: Some(Ack::Local), ..pooled.clone() },
                false,
                (3, 2, Durability::Memory),
            ),
            (
                PutOptions { policy: Policy::Cache, ..pooled.clone() },
                false,
                (1, 1, Durability::Cache),
            ),
        ];
        for (options, settles, expected) in cases {
            let plan = Plan::new("putting", 1, &options).unwrap();
            let pool = Attributes::decode(&plan.attributes).unwrap().pool.unwrap();
            assert_eq!((pool.copies, pool.copies_min, pool.class), expected);
            assert_eq!((pool.serial, pool.origin, plan.settles), (0, None, settles));
        }
        let waits = PutOptions { ack: Some(Ack::Copies), ..pooled.clone() };
        assert!(Plan::new("putting", 1, &waits).unwrap().settles);

        let name = |text| Some(Name::new("", text).unwrap());
        let named = PutOptions { name: name("@prod:sales"), ..pooled.clone() };
        let plan = Plan::new("putting", 1, &named).unwrap();
        assert!(!plan.needs_id && !plan.settles, "its seal is answered when it is accepted");
        let refused = [
            PutOptions { id: Some(ObjectId::new([1; 20])), ..pooled.clone() },
            PutOptions { name: name("sales"), ..pooled.clone() },
            PutOptions { ack: Some(Ack::Local), ..named },
            PutOptions { ack: Some(Ack::Copies), pool: false, ..pooled.clone() },
            PutOptions { copies: 9, ..pooled.clone() },
            PutOptions { copies_min: 2, ..pooled },
        ];
        for options in refused {
            let error = Plan::new("putting", 1, &options).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest, "{options:?}");
        }
    }

    #[test]
    fn a_durable_object_of_a_pool_says_so_in_its_class_and_is_waited_for() {
        let named = PutOptions { name: Name::new("", "@prod:x").ok(), ..PutOptions::default() };
        let unnamed = PutOptions { pool: true, ..PutOptions::default() };
        for (options, copies) in [(named, (2, 1)), (unnamed, (1, 1))] {
            let is_named = options.name.is_some();
            let by_storage = Some(Durability::Durable);
            for options in [
                PutOptions { durable: true, ..options.clone() },
                PutOptions { storage: by_storage, ..options.clone() },
                PutOptions { durable: true, storage: by_storage, ..options.clone() },
            ] {
                let plan = Plan::new("putting", 1, &options).unwrap();
                let attributes = Attributes::decode(&plan.attributes).unwrap();
                let pool = attributes.pool.unwrap();
                assert_eq!((pool.copies, pool.copies_min), copies);
                assert_eq!(pool.class, Durability::Durable);
                assert!(!attributes.durable && !plan.durable, "the pool decides");
                assert_eq!(plan.settles, !is_named, "the seal of one with a name is answered then");
            }
            let durable = PutOptions { durable: true, ..options.clone() };
            let member = ObjectId::pooled([1; 12], Some(3));
            let refused = [
                (PutOptions { ack: Some(Ack::Local), ..durable.clone() }, Code::BadRequest),
                (PutOptions { policy: Policy::Cache, ..durable.clone() }, Code::BadRequest),
                (
                    PutOptions { storage: Some(Durability::Memory), ..durable.clone() },
                    Code::BadRequest,
                ),
                (PutOptions { members: vec![member], ..durable }, Code::Unsupported),
            ];
            for (options, code) in refused {
                let error = Plan::new("putting", 1, &options).unwrap_err();
                assert_eq!(error.code(), code, "{options:?}");
            }
        }
    }

    #[test]
    fn a_cache_has_one_copy_on_its_node() {
        let cache = PutOptions { storage: Some(Durability::Cache), ..PutOptions::default() };
        let named = PutOptions { name: Name::new("", "@prod:x").ok(), ..cache.clone() };
        let by_policy = PutOptions { storage: None, policy: Policy::Cache, ..named.clone() };
        let unnamed = PutOptions { pool: true, ..cache.clone() };
        for options in [named.clone(), by_policy.clone(), unnamed.clone()] {
            let plan = Plan::new("putting", 1, &options).unwrap();
            let pool = Attributes::decode(&plan.attributes).unwrap().pool.unwrap();
            assert_eq!((pool.copies, pool.copies_min, pool.class), (1, 1, Durability::Cache));
            assert_eq!(plan.traits.policy, Policy::Cache);
        }
        let (spread, memory) = (CopyPlacement::Spread, Some(Durability::Memory));
        let refused = [
            (PutOptions { copies: 2, ..named.clone() }, Code::BadRequest),
            (PutOptions { copies: 2, ..unnamed }, Code::BadRequest),
            (PutOptions { placement: spread, ..named.clone() }, Code::BadRequest),
            (cache, Code::BadRequest),
            (PutOptions { storage: memory, ..by_policy }, Code::BadRequest),
            (PutOptions { durable: true, ..named }, Code::BadRequest),
        ];
        for (options, code) in refused {
            let error = Plan::new("putting", 1, &options).unwrap_err();
            assert_eq!(error.code(), code, "{options:?}");
        }
        assert!(
            Plan::new("putting", 1, &PutOptions { storage: memory, ..PutOptions::default() })
                .is_ok()
        );
    }

    #[test]
    fn what_a_pool_cannot_do_is_refused_before_a_byte_is_copied() {
        let name = Some(Name::new("", "@prod:sales").unwrap());
        let pooled = PutOptions { name, ..PutOptions::default() };
        let refused = [
            PutOptions { ttl: Some(Duration::from_secs(1)), ..pooled.clone() },
            PutOptions { replace: true, ..pooled.clone() },
            PutOptions { owned: true, ..pooled.clone() },
            PutOptions { members: vec![ObjectId::new([7; 20])], ..pooled.clone() },
            PutOptions { members: vec![ObjectId::pooled([7; 12], None)], ..pooled.clone() },
            PutOptions {
                members: vec![ObjectId::pooled([7; 12], Some(3)), ObjectId::new([7; 20])],
                pool: true,
                ..PutOptions::default()
            },
            PutOptions { members: vec![ObjectId::pooled([7; 12], None)], ..PutOptions::default() },
            PutOptions {
                members: vec![ObjectId::new([7; 20]), ObjectId::pooled([7; 12], Some(3))],
                ..PutOptions::default()
            },
        ];
        assert!(Plan::new("putting", 1, &pooled).is_ok());
        for options in refused {
            let error = Plan::new("putting", 1, &options).unwrap_err();
            assert_eq!(error.code(), Code::Unsupported);
        }
    }

    #[test]
    fn an_object_of_a_pool_has_members_of_the_pool_and_says_whether_it_owns_them() {
        let name = Some(Name::new("", "@prod:sales").unwrap());
        let members = vec![ObjectId::pooled([7; 12], Some(3)); 2];
        let base = PutOptions { members: members.clone(), ..PutOptions::default() };
        for (name, pool) in [(name, false), (None, true)] {
            for owns_members in [false, true] {
                let options = PutOptions { name: name.clone(), pool, owns_members, ..base.clone() };
                let plan = Plan::new("putting", 1, &options).unwrap();
                let attributes = Attributes::decode(&plan.attributes).unwrap();
                assert_eq!(attributes.members, members);
                let owns = attributes.pool.is_some_and(|pool| pool.owns_members);
                assert_eq!(owns, owns_members);
                let member = Attributes::decode(&member_attributes("putting", &options).unwrap());
                let member = member.unwrap();
                assert_eq!((member.name, member.members), (None, vec![]));
                let copies = name.is_some().then_some(2);
                let found = member.pool.map(|pool| (pool.copies, pool.serial, pool.owns_members));
                assert_eq!(found, copies.map(|copies| (copies, 0, false)));
            }
        }
        let alone = PutOptions { owns_members: true, ..PutOptions::default() };
        assert_eq!(Plan::new("putting", 1, &alone).unwrap_err().code(), Code::BadRequest);
    }

    #[test]
    fn sizes_at_and_past_their_limits() {
        let plain = PutOptions::default();
        assert_eq!(Plan::new("putting", 0, &plain).unwrap().footprint, 64);
        assert!(Plan::new("putting", OBJECT_BYTES_MAX, &plain).is_ok());
        for bytes in [OBJECT_BYTES_MAX + 1, 1 << 63, u64::MAX] {
            assert_eq!(Plan::new("putting", bytes, &plain).unwrap_err().code(), Code::TooLarge);
        }
        let members = |count| PutOptions {
            members: vec![ObjectId::new([7; 20]); count],
            ..PutOptions::default()
        };
        assert!(Plan::new("putting", 0, &members(MEMBERS_MAX)).is_ok());
        let error = Plan::new("putting", 0, &members(MEMBERS_MAX + 1)).unwrap_err();
        assert_eq!((error.code(), error.found()), (Code::LimitReached, MEMBERS_MAX as u64));
    }
}
