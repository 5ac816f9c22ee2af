//! What is to be done about namespaces that programs adopt, as far as a node has seen them. Pure:
//! the pool daemon writes what follows to etcd.

use plasmon_cluster::adoption::{Adopter, first_unaware, first_unswept};
use plasmon_cluster::{Map, Node};
use plasmon_proto::limits::POOL_ADOPTIONS_MAX;
use plasmon_proto::pool_adoption::AdoptionRefusal;

use crate::adoptions::Adoption;
use crate::view::{SeenAdoption, View};

/// How many namespaces that have ended are remembered, so that a late writer leaves nothing there.
const ENDED_MAX: usize = 1024;

/// What is to be done for a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write that it is adopted, in place of what was written in this revision.
    Write(i64),
    /// Others have to do something first.
    Wait(AdoptionRefusal),
    /// It is decided.
    Answer(Result<(), AdoptionRefusal>),
}

/// What is to be done next for a session that wants a namespace with this limit, 0 for none.
pub fn step(view: &View, map: &Map, namespace: &str, own: Adopter, bytes_max: u64) -> Step {
    let progress = view.progress(map);
    match view.adoptions.get(namespace) {
        Some(SeenAdoption { adoption: Adoption::Adopted { by, .. }, .. }) if *by != own => {
            Step::Answer(Err(AdoptionRefusal::Exists))
        }
        Some(SeenAdoption { adoption: Adoption::Adopted { bytes_max: known, .. }, revision })
            if *known != bytes_max =>
        {
            Step::Write(*revision)
        }
        Some(SeenAdoption { adoption: Adoption::Adopted { .. }, revision }) => {
            match first_unaware(map, &progress, revision.unsigned_abs()) {
                Some(_) => Step::Wait(AdoptionRefusal::Unreachable),
                None => Step::Answer(Ok(())),
            }
        }
        Some(SeenAdoption { adoption: Adoption::Ended, revision }) => {
            match first_unswept(map, &progress, revision.unsigned_abs()) {
                Some((_, Node { member, .. })) => {
                    Step::Wait(AdoptionRefusal::NotSwept(member.name.clone()))
                }
                None => Step::Write(*revision),
            }
        }
        None => {
            let is_adopted = |seen: &&SeenAdoption| seen.adoption != Adoption::Ended;
            let count = view.adoptions.values().filter(is_adopted).count();
            match count < POOL_ADOPTIONS_MAX {
                true => Step::Write(0),
                false => {
                    Step::Answer(Err(AdoptionRefusal::LimitReached(POOL_ADOPTIONS_MAX as u64)))
                }
            }
        }
    }
}

/// Namespaces whose adopters are gone, so many at most, each with the revision in which it was
/// written.
pub fn orphans(view: &View, map: &Map, count: usize) -> Vec<(String, i64)> {
    let is_orphan = |(namespace, seen): (&String, &SeenAdoption)| match seen.adoption {
        Adoption::Adopted { by, .. } if by.is_gone(map) => Some((namespace.clone(), seen.revision)),
        _ => None,
    };
    view.adoptions.iter().filter_map(is_orphan).take(count).collect()
}

/// Namespaces whose end need not be remembered any more, so many at most: the oldest beyond a
/// number.
pub fn forgettable(view: &View, count: usize) -> Vec<(String, i64)> {
    let ended = view.adoptions.iter().filter(|(_, seen)| seen.adoption == Adoption::Ended);
    let mut ended: Vec<(i64, &String)> =
        ended.map(|(namespace, seen)| (seen.revision, namespace)).collect();
    let surplus = ended.len().saturating_sub(ENDED_MAX).min(count);
    ended.sort_unstable();
    ended.into_iter().take(surplus).map(|(at, namespace)| (namespace.clone(), at)).collect()
}

#[cfg(test)]
mod tests {
    use plasmon_cluster::adoption::Progress;
    use plasmon_cluster::leader::{Leader, OUT_AFTER_MS, Observation};
    use plasmon_cluster::{Member, NodeUuid, ProtocolRange, Reach};
    use plasmon_etcd::{Change, KeyValue};

    use super::*;
    use crate::adoptions;
    use crate::keys::{Key, Keys, Life};

    fn own(session: u64) -> Adopter {
        Adopter { node: life(0).uuid, boot: 1, session }
    }

    fn adopted(by: Adopter) -> Adoption {
        Adoption::Adopted { by, bytes_max: 0 }
    }

    fn life(number: u8) -> Life {
        Life { uuid: NodeUuid([number; 16]), incarnation: 1 }
    }

    fn keys() -> Keys {
        Keys::new("p").unwrap()
    }

    /// A map with two nodes, as their leader makes it.
    fn map() -> Map {
        let member = |number| Member {
            uuid: life(number).uuid,
            name: format!("n{number}"),
            incarnation: 1,
            boot: 1,
            addresses: vec!["127.0.0.1:1".to_owned()],
            zone: String::new(),
            weight: 1,
            log: plasmon_cluster::NodeLog::Absent,
            protocol: ProtocolRange { min: 1, max: 1 },
        };
        let (map, members) = (Map::default(), [member(0), member(1)]);
        let (activations, drained, commands) = (&[], &[], &[]);
        let (map, reach) = (&map, Reach::default());
        let members = &members;
        let seen = Observation { map, members, activations, drained, commands, reach };
        Leader::new(OUT_AFTER_MS).step(0, &seen).proposal.unwrap()
    }

    fn put(view: &mut View, key: Vec<u8>, value: Vec<u8>, revision: i64) {
        let (create_revision, mod_revision, lease) = (revision, revision, None);
        let kv = KeyValue { key, value, create_revision, mod_revision, lease };
        view.apply(&keys(), &Change::Put(kv));
    }

    fn set(view: &mut View, namespace: &str, adoption: Adoption, revision: i64) {
        put(view, keys().of_namespace(namespace), adoptions::encode(&adoption), revision);
    }

    fn progress(view: &mut View, number: u8, seen: u64, swept: u64) {
        let value = adoptions::encode_progress(Progress { seen, swept });
        put(view, keys().of(Key::Swept(life(number))), value, 1);
    }

    #[test]
    fn an_adoption_goes_on_when_others_have_done_their_part() {
        let (mut view, map) = (View::default(), map());
        let next = |view: &View| step(view, &map, "@app", own(5), 0);
        assert_eq!(next(&view), Step::Write(0));
        set(&mut view, "@app", adopted(own(5)), 7);
        progress(&mut view, 0, 7, 7);
        progress(&mut view, 1, 6, 6);
        assert_eq!(next(&view), Step::Wait(AdoptionRefusal::Unreachable));
        progress(&mut view, 1, 7, 0);
        assert_eq!(next(&view), Step::Answer(Ok(())));
        let other = step(&view, &map, "@app", own(6), 0);
        assert_eq!(other, Step::Answer(Err(AdoptionRefusal::Exists)));

        set(&mut view, "@app", Adoption::Ended, 8);
        progress(&mut view, 0, 8, 8);
        progress(&mut view, 1, 8, 7);
        assert_eq!(next(&view), Step::Wait(AdoptionRefusal::NotSwept("n1".to_owned())));
        progress(&mut view, 1, 8, 8);
        assert_eq!(next(&view), Step::Write(8));
    }

    #[test]
    fn a_limit_is_changed_by_the_session_that_has_the_namespace_and_counts_when_all_know_it() {
        let (mut view, map) = (View::default(), map());
        let next = |view: &View, bytes_max| step(view, &map, "@app", own(5), bytes_max);
        assert_eq!(next(&view, 100), Step::Write(0));
        set(&mut view, "@app", Adoption::Adopted { by: own(5), bytes_max: 100 }, 7);
        progress(&mut view, 0, 7, 7);
        progress(&mut view, 1, 6, 6);
        assert_eq!(next(&view, 100), Step::Wait(AdoptionRefusal::Unreachable));
        assert_eq!((next(&view, 200), next(&view, 0)), (Step::Write(7), Step::Write(7)));
        progress(&mut view, 1, 7, 7);
        assert_eq!(next(&view, 100), Step::Answer(Ok(())));
        let other = step(&view, &map, "@app", own(6), 200);
        assert_eq!(other, Step::Answer(Err(AdoptionRefusal::Exists)));
    }

    #[test]
    fn so_many_are_adopted_and_so_many_ends_remembered() {
        let (mut view, map) = (View::default(), map());
        for number in 1..POOL_ADOPTIONS_MAX as i64 {
            set(&mut view, &format!("@{number}"), adopted(own(1)), number);
        }
        assert_eq!(step(&view, &map, "@app", own(5), 0), Step::Write(0));
        set(&mut view, "@last", adopted(own(1)), 5000);
        let limit = AdoptionRefusal::LimitReached(POOL_ADOPTIONS_MAX as u64);
        assert_eq!(step(&view, &map, "@app", own(5), 0), Step::Answer(Err(limit)));
        assert!(forgettable(&view, 9).is_empty());
        for number in 0..ENDED_MAX as i64 + 2 {
            set(&mut view, &format!("@ended{number}"), Adoption::Ended, 10_000 - number);
        }
        let last = ENDED_MAX as i64 + 1;
        let oldest = [last, last - 1].map(|it| (format!("@ended{it}"), 10_000 - it));
        assert_eq!(forgettable(&view, 9), oldest);
    }

    #[test]
    fn the_leader_ends_what_gone_nodes_had_adopted() {
        let (mut view, map) = (View::default(), map());
        set(&mut view, "@here", adopted(own(1)), 3);
        set(&mut view, "@over", Adoption::Ended, 4);
        assert_eq!(orphans(&view, &map, 9), []);
        set(&mut view, "@gone", adopted(Adopter { boot: 2, ..own(1) }), 5);
        assert_eq!(orphans(&view, &map, 9), [("@gone".to_owned(), 5)]);
    }
}
