//! Clients that adopt namespaces, and what must hold: nothing in a namespace goes while its adopter
//! lives, whatever else fails; and after its end nothing is left, and nothing comes in.

use std::collections::BTreeMap;

use plasmon_cluster::NodeState;
use plasmon_membership::adoptions::Adoption;
use plasmon_pool::Mono;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::object::CopyPlacement;
use plasmon_proto::{Code, Name, ObjectId};
use plasmon_store::{ClientNo, Event};
use plasmon_testkit::Random;

use super::clients::CLIENTS;
use super::history::{Operation, OperationNo, Outcome};
use super::world::World;

/// Of so many turns of clients one is about a namespace.
const ADOPT_ONE_OF: u64 = 12;

/// Namespaces of a run, and names in each.
const NAMESPACES_MAX: usize = 4;
const NAMES: u8 = 3;

/// A client that adopted a namespace, or asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Adopter {
    at: usize,
    boot: u64,
    client: ClientNo,
    session: u64,
}

#[derive(Debug)]
struct Namespace {
    ids: Vec<ObjectId>,
    /// Those that may have it, or get it.
    adopters: Vec<Adopter>,
    /// The one that was told that it has it, and has not ended.
    held_by: Option<Adopter>,
    /// It was adopted again after it had ended.
    was_ended: bool,
    /// Since when it may have ended, if it may.
    ended: Option<Mono>,
    /// Deletes of all of it that may be under way.
    sweeps: Vec<OperationNo>,
}

/// The namespaces of a run, with dice of their own.
#[derive(Debug)]
pub(crate) struct Adoptions {
    dice: Random,
    /// Of seven runs three have them.
    are_made: bool,
    namespaces: BTreeMap<String, Namespace>,
    /// Requests that are not answered, by machine, client and number.
    asked: BTreeMap<(usize, ClientNo, u64), (String, Adopter)>,
    /// Puts that have to be refused.
    late: Vec<OperationNo>,
}

impl Adoptions {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Random::new(seed ^ 0x6164_6f70),
            are_made: seed % 7 < 3,
            namespaces: BTreeMap::new(),
            asked: BTreeMap::new(),
            late: Vec::new(),
        }
    }

    fn of_id(&self, id: &ObjectId) -> Option<&Namespace> {
        self.namespaces.values().find(|namespace| namespace.ids.contains(id))
    }
}

impl World {
    /// An id that any node may make: one of a namespace that is adopted now and then.
    pub(crate) fn any_free_id(&mut self) -> ObjectId {
        let adopted = self.free.len() - super::clients::BASE_IDS;
        let from = if adopted > 0 && self.adoptions.dice.percent(40) {
            super::clients::BASE_IDS + self.adoptions.dice.size_below(adopted)
        } else {
            self.dice.size_below(super::clients::BASE_IDS)
        };
        self.free[from]
    }

    /// A client adopts a namespace, or ends an adoption, now and then.
    pub(crate) fn adopt_at_random(&mut self, at: usize) -> Result<(), String> {
        let adoptions = &mut self.adoptions;
        if !adoptions.are_made || adoptions.dice.below(ADOPT_ONE_OF) > 0 {
            return Ok(());
        }
        let client = ClientNo(1 + adoptions.dice.below(u64::from(CLIENTS)) as u32);
        let count = adoptions.namespaces.len();
        if count < NAMESPACES_MAX && (count == 0 || adoptions.dice.percent(40)) {
            let name = format!("@app{count}");
            self.make_namespace(&name)?;
            return self.adopt(at, client, &name);
        }
        let which = adoptions.dice.size_below(count);
        let (name, namespace) = adoptions.namespaces.iter().nth(which).ok_or("no namespace")?;
        let name = name.clone();
        let own = namespace.adopters.iter().find(|adopter| adopter.at == at);
        match own.copied() {
            Some(own) if adoptions.dice.percent(30) => self.end_adoption(&name, own),
            _ => self.adopt(at, client, &name),
        }
    }

    fn make_namespace(&mut self, name: &str) -> Result<(), String> {
        let mut ids = Vec::new();
        for number in 0..NAMES {
            let name = Name::new(name, number.to_string()).map_err(|error| error.to_string())?;
            ids.push(self.add_name(name));
        }
        let (adopters, sweeps) = (Vec::new(), Vec::new());
        let namespace =
            Namespace { ids, adopters, held_by: None, was_ended: false, ended: None, sweeps };
        self.adoptions.namespaces.insert(name.to_owned(), namespace);
        Ok(())
    }

    fn adopter_of(&self, at: usize, client: ClientNo) -> Adopter {
        let machine = &self.machines[at];
        Adopter { at, boot: machine.boot, client, session: machine.session_of(client) }
    }

    fn adopt(&mut self, at: usize, client: ClientNo, name: &str) -> Result<(), String> {
        let adopter = self.adopter_of(at, client);
        let number = self.machines[at].next_request();
        self.note(|| format!("client {client:?} of {at} adopts {name}"));
        if let Some(namespace) = self.adoptions.namespaces.get_mut(name) {
            namespace.adopters.push(adopter);
        }
        self.adoptions.asked.insert((at, client, number), (name.to_owned(), adopter));
        let request = Request::Adopt { namespace: name.to_owned(), bytes_max: 0 };
        self.feed(at, Event::Request(client, number, request))
    }

    fn end_adoption(&mut self, name: &str, adopter: Adopter) -> Result<(), String> {
        let Adopter { at, client, .. } = adopter;
        if self.adopter_of(at, client) != adopter {
            return Ok(());
        }
        self.note(|| format!("client {client:?} of {at} ends its adoption of {name}"));
        self.may_end(name);
        if let Some(namespace) = self.adoptions.namespaces.get_mut(name) {
            namespace.held_by = None;
        }
        let number = self.machines[at].next_request();
        let request = Request::EndAdoption { namespace: name.to_owned() };
        self.feed(at, Event::Request(client, number, request))
    }

    /// A client is answered about a namespace; whether it is that.
    pub(crate) fn adoption_replied(
        &mut self,
        at: usize,
        (client, request): (ClientNo, u64),
        reply: &Reply,
    ) -> Result<bool, String> {
        let asked = self.adoptions.asked.remove(&(at, client, request));
        let Some((name, adopter)) = asked else { return Ok(false) };
        let now = self.now;
        self.note(|| format!("client {client:?} of {at} is told {reply:?} of {name}"));
        match reply {
            Reply::Done => self.adopted(&name, adopter)?,
            Reply::Failed(failure) => {
                let is_known = matches!(
                    failure.code,
                    Code::Exists | Code::InUse | Code::Unreachable | Code::Cancelled
                );
                if !is_known {
                    return Err(format!("{name} cannot be adopted: {failure:?}"));
                }
                let is_sure = matches!(failure.code, Code::Exists | Code::InUse);
                let namespace = self.adoptions.namespaces.get_mut(&name);
                if let Some(namespace) = namespace.filter(|_| is_sure) {
                    // It may have it from another request.
                    let last = namespace.adopters.iter().rposition(|it| *it == adopter);
                    last.map(|last| namespace.adopters.remove(last));
                }
            }
            other => return Err(format!("{other:?} is no answer to an adoption at {now:?}")),
        }
        Ok(true)
    }

    fn adopted(&mut self, name: &str, adopter: Adopter) -> Result<(), String> {
        let now = self.now;
        let is_there = self.adopter_of(adopter.at, adopter.client) == adopter;
        // Its node may have been given up since.
        let written = self.etcd.adoptions.view.adoptions.get(name).map(|seen| seen.adoption);
        if !matches!(written, Some(Adoption::Adopted { by, .. }) if by.session == adopter.session) {
            return Ok(());
        }
        let Some(namespace) = self.adoptions.namespaces.get_mut(name) else { return Ok(()) };
        if let Some(other) = namespace.held_by.filter(|other| *other != adopter) {
            return Err(format!("{name} is adopted by {adopter:?}, and {other:?} has it"));
        }
        namespace.held_by = is_there.then_some(adopter);
        let Some(ended) = namespace.ended.filter(|_| is_there) else { return Ok(()) };
        // A node that was out alone may still come back with what it had.
        let was_out = self.etcd.maps.iter().any(|(made, map)| {
            let is_recent = *made >= ended || made.after_ms(10_000) >= ended;
            is_recent && map.nodes().any(|(_, node)| node.state == NodeState::Out)
        });
        if was_out {
            return Ok(());
        }
        (namespace.ended, namespace.was_ended) = (None, true);
        for no in std::mem::take(&mut namespace.sweeps) {
            if let Some(record) = self.history.records.get_mut(&no) {
                record.end = Some((now, Outcome::NotDeleted(Code::Cancelled)));
            }
        }
        Ok(())
    }

    /// A namespace may end from now on, and all of it may be deleted.
    fn may_end(&mut self, name: &str) {
        let now = self.now;
        let Some(namespace) = self.adoptions.namespaces.get_mut(name) else { return };
        if namespace.ended.is_some() {
            return;
        }
        namespace.ended = Some(now);
        for id in namespace.ids.clone() {
            let no = self.history.begin(now, 0, Operation::Delete { id });
            self.history.records.entry(no).and_modify(|record| record.left = true);
            if let Some(namespace) = self.adoptions.namespaces.get_mut(name) {
                namespace.sweeps.push(no);
            }
        }
    }

    /// The node of the adopter was given up.
    pub(crate) fn given_up(&mut self, name: &str) {
        self.may_end(name);
        if let Some(namespace) = self.adoptions.namespaces.get_mut(name) {
            namespace.held_by = None;
        }
    }

    /// A session is over: what it had adopted ends.
    fn end_adopter(&mut self, is_over: impl Fn(&Adopter) -> bool) {
        let mut ended = Vec::new();
        for (name, namespace) in &mut self.adoptions.namespaces {
            let before = namespace.adopters.len();
            namespace.adopters.retain(|adopter| !is_over(adopter));
            namespace.held_by = namespace.held_by.filter(|adopter| !is_over(adopter));
            if namespace.adopters.len() < before {
                ended.push(name.clone());
            }
        }
        ended.into_iter().for_each(|name| self.may_end(&name));
    }

    /// The process of a client ends; the next one with its number has another session.
    pub(crate) fn end_session(&mut self, at: usize, client: ClientNo) {
        self.end_adopter(|adopter| (adopter.at, adopter.client) == (at, client));
        self.adoptions.asked.retain(|(of, by, _), _| (*of, *by) != (at, client));
        *self.machines[at].processes.entry(client).or_default() += 1;
    }

    /// The daemon of a store died. Some of its clients are gone when there is another.
    pub(crate) fn end_some_sessions(&mut self, at: usize) {
        self.adoptions.asked.retain(|(of, ..), _| *of != at);
        for client in (1..=CLIENTS).map(ClientNo) {
            if self.adoptions.are_made && self.adoptions.dice.percent(20) {
                self.end_session(at, client);
            }
        }
    }

    /// All of a machine is gone.
    pub(crate) fn end_all_sessions(&mut self, at: usize) {
        (1..=CLIENTS).map(ClientNo).for_each(|client| self.end_session(at, client));
    }

    /// All adopters end, each in its own way.
    pub(crate) fn end_all_adoptions(&mut self) -> Result<(), String> {
        for at in 0..self.machines.len() {
            for client in (1..=CLIENTS).map(ClientNo) {
                let adopter = self.adopter_of(at, client);
                let of_client = self.adoptions.namespaces.iter();
                let names = of_client.filter(|(_, it)| it.adopters.contains(&adopter));
                let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
                if names.is_empty() {
                    continue;
                }
                if self.adoptions.dice.percent(30) {
                    names.iter().try_for_each(|name| self.end_adoption(name, adopter))?;
                }
                // What it asked for and was not told it may get after that.
                self.end_client(at, client)?;
            }
        }
        Ok(())
    }

    /// A put is cancelled only where its namespace may have ended. A node that was away when it was
    /// adopted again may not know that.
    pub(crate) fn check_cancelled(&self, id: &ObjectId, code: Code) -> Result<(), String> {
        let is_open = |it: &Namespace| it.ended.is_none() && !it.was_ended;
        match self.adoptions.of_id(id) {
            Some(namespace) if code == Code::Cancelled && is_open(namespace) => {
                Err(format!("a put of {id} is cancelled, and its namespace has not ended"))
            }
            _ => Ok(()),
        }
    }

    /// After the end of all adopters nothing is left in namespaces that were adopted, and no
    /// adoption. Puts into them are begun, which have to be refused.
    pub(crate) fn check_adoptions(&mut self) -> Result<(), String> {
        if let Some(asked) = self.adoptions.asked.values().next() {
            return Err(format!("an adoption is not answered: {asked:?}"));
        }
        let mut late = Vec::new();
        for (name, namespace) in &self.adoptions.namespaces {
            match self.etcd.adoptions.view.adoptions.get(name).map(|seen| seen.adoption) {
                Some(Adoption::Adopted { by, .. }) => {
                    return Err(format!("{name} has an adopter that is gone: {by:?}"));
                }
                Some(Adoption::Ended) => {}
                None => continue,
            }
            for (machine, id) in
                self.machines.iter().flat_map(|m| namespace.ids.iter().map(move |id| (m, id)))
            {
                if machine.has_any(id) {
                    let at = machine.index;
                    return Err(format!("{at} has {id} of {name}, which has ended"));
                }
                late.push((machine.index, *id));
            }
        }
        for (at, id) in late {
            let placement = CopyPlacement::Local;
            let operation =
                Operation::Put { id, data_bytes: 100, copies: 1, copies_min: 1, placement };
            let no = self.begin(at, operation)?;
            self.adoptions.late.push(no);
        }
        Ok(())
    }

    /// Those were refused.
    pub(crate) fn check_late(&self) -> Result<(), String> {
        for no in &self.adoptions.late {
            let record = &self.history.records[no];
            match record.end {
                Some((_, Outcome::Put(Err(Code::Cancelled)) | Outcome::Aborted)) => {}
                _ => return Err(format!("a put into what has ended: {record:?}")),
            }
        }
        Ok(())
    }
}
