//! Adoption of a namespace of the pool: the pool decides about it, and answers.

use plasmon_proto::Code;
use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::pool_adoption::{AdoptionCall, AdoptionRefusal, AdoptionTold, NamespaceState};

use super::namespaces::{ADOPTION_MS, AdoptionRequest, Life, UNKNOWN_SESSION_MS, Wish};
use super::{no_pool, not_the_agent};
use crate::adoption::{ADOPTED_PER_CLIENT_MAX, not_adopted};
use crate::effect::Effect;
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// An `Adopt` request for a namespace of the pool.
    pub(crate) fn adopt_pooled(
        &mut self,
        client: ClientNo,
        request: u64,
        namespace: String,
        bytes_max: u64,
    ) {
        let Some(session) = self.session_of(client) else { return };
        match self.check_adoption(&namespace, session) {
            Ok(()) => self.ask_adoption(client, request, namespace, Wish::Adopt, bytes_max),
            Err(failure) => self.fail(client, request, failure),
        }
    }

    /// Whether the session may ask the pool for the namespace. It may also if it has it: perhaps
    /// not every node knows that yet, or it has another limit.
    fn check_adoption(&self, namespace: &str, session: u64) -> Result<(), Failure> {
        if !self.config.pool {
            return Err(no_pool());
        }
        if namespace.chars().eq([POOLED_PREFIX]) {
            let detail = "the default namespace of the pool cannot be adopted: adopt one that has \
                          a name, such as @app-1";
            return Err(Failure::of(Code::BadRequest).with_detail(detail));
        }
        match self.seat.namespaces.holder(namespace) {
            Some(held) if held.session == session && held.life != Life::Over => return Ok(()),
            Some(held) if held.session != session => return Err(adopted_by_another()),
            _ => {}
        }
        let count = self.seat.namespaces.count(session);
        if count >= ADOPTED_PER_CLIENT_MAX {
            return Err(Failure::of(Code::LimitReached)
                .with_amounts(count as u64 + 1, ADOPTED_PER_CLIENT_MAX as u64)
                .with_detail("this client has adopted the maximum number of namespaces"));
        }
        Ok(())
    }

    /// An `EndAdoption` request for a namespace of the pool: answered when the pool knows it.
    pub(crate) fn end_pooled_adoption(
        &mut self,
        client: ClientNo,
        request: u64,
        namespace: String,
    ) {
        let Some(session) = self.session_of(client) else { return };
        if !self.seat.namespaces.end(&namespace, session) {
            return self.fail(client, request, not_adopted());
        }
        self.call_adoption(AdoptionCall::Orphaned { namespace: namespace.clone(), session });
        self.ask_adoption(client, request, namespace, Wish::End, 0);
    }

    fn ask_adoption(
        &mut self,
        client: ClientNo,
        request: u64,
        namespace: String,
        wish: Wish,
        bytes_max: u64,
    ) {
        let (Some(asker), Some(session)) =
            (self.sessions.clients.asker(client), self.session_of(client))
        else {
            return;
        };
        let deadline_ms = self.now_ms.saturating_add(ADOPTION_MS);
        let waiting = AdoptionRequest {
            asker,
            request,
            namespace: namespace.clone(),
            session,
            wish,
            bytes_max,
            deadline_ms,
        };
        let number = self.seat.namespaces.ask(waiting);
        self.seat.await_agent(self.now_ms);
        if wish == Wish::Adopt {
            self.call_adoption(AdoptionCall::adopt(number, namespace, session, bytes_max));
        }
    }

    /// The number of a client that is the same for all daemons of the store.
    fn session_of(&self, client: ClientNo) -> Option<u64> {
        self.sessions.clients.get(client).map(|found| found.peer.session)
    }

    /// Tells the agent, also one that is still being told what is here.
    pub(super) fn call_adoption(&mut self, call: AdoptionCall) {
        if let Some(agent) = self.seat.agent {
            self.out.push(Effect::CallAdoption(agent, call));
        }
    }

    /// What a new agent is told of what clients wait for.
    pub(super) fn call_adoptions(&mut self) {
        self.seat.namespaces.begin();
        let requests = self.seat.namespaces.requests();
        let calls: Vec<AdoptionCall> = requests
            .filter(|(_, it)| it.wish == Wish::Adopt)
            .map(|(number, it)| {
                AdoptionCall::adopt(number, it.namespace.clone(), it.session, it.bytes_max)
            })
            .collect();
        calls.into_iter().for_each(|call| self.call_adoption(call));
    }

    /// A session has ended, and what it had adopted.
    pub(crate) fn end_pooled_adoptions(&mut self, session: u64) {
        for namespace in self.seat.namespaces.end_session(session) {
            self.call_adoption(AdoptionCall::Orphaned { namespace, session });
        }
    }

    /// A `TellAdoptions` request.
    pub(crate) fn tell_adoptions(
        &mut self,
        client: ClientNo,
        told: Vec<AdoptionTold>,
    ) -> Result<Reply, Failure> {
        if !self.seat.is_agent(client) {
            return Err(not_the_agent());
        }
        for one in told {
            match one {
                AdoptionTold::Namespace { namespace, state } => self.namespace(namespace, state),
                AdoptionTold::Revision(revision) => {
                    if let Some(named) = self.seat.namespaces.told_all(revision) {
                        self.sessions.adoptions.pool.retain(&named);
                        self.sessions.adoptions.quotas.retain(&named);
                    }
                    self.sessions.adoptions.pool.is_dirty = true;
                }
                AdoptionTold::Answer { number, result } => self.adoption_answered(number, result),
                AdoptionTold::Quota { namespace, bytes_max, elsewhere_bytes } => {
                    let quotas = &mut self.sessions.adoptions.quotas;
                    quotas.set(namespace, bytes_max, elsewhere_bytes);
                }
            }
        }
        for ended in self.seat.namespaces.take_ended() {
            self.answer_adoption(&ended, Reply::Done);
        }
        Ok(Reply::Done)
    }

    /// The pool says what a namespace is.
    fn namespace(&mut self, namespace: String, state: NamespaceState) {
        let life = match state {
            NamespaceState::AdoptedHere(session) => self.life_of(session),
            _ => Life::Known,
        };
        let is_orphan = self.seat.namespaces.set(&namespace, state, life);
        let is_ended = state == NamespaceState::Ended;
        self.sessions.adoptions.pool.set_ended(&namespace, is_ended);
        self.sessions.adoptions.quotas.remove(&namespace);
        if let (NamespaceState::AdoptedHere(session), true) = (state, is_orphan) {
            self.call_adoption(AdoptionCall::Orphaned { namespace, session });
        }
    }

    fn life_of(&self, session: u64) -> Life {
        if self.sessions.clients.has_number(session) {
            return Life::Known;
        }
        Life::Unknown { until_ms: self.now_ms.saturating_add(UNKNOWN_SESSION_MS) }
    }

    fn adoption_answered(&mut self, number: u64, result: Result<(), AdoptionRefusal>) {
        let Some(waiting) = self.seat.namespaces.take(number) else { return };
        let reply = match result {
            Ok(()) => Reply::Done,
            Err(refusal) => Reply::Failed(failure_of(refusal)),
        };
        self.answer_adoption(&waiting, reply);
    }

    fn answer_adoption(&mut self, waiting: &AdoptionRequest, reply: Reply) {
        if self.sessions.clients.is_asking(waiting.asker) {
            self.reply(waiting.asker.client, waiting.request, reply);
        }
    }

    /// Requests whose time is over are answered, and sessions that did not come back are gone.
    pub(crate) fn end_overdue_adoptions(&mut self) {
        for waiting in self.seat.namespaces.take_overdue(Some(self.now_ms)) {
            self.answer_adoption(&waiting, Reply::Failed(not_answered(waiting.wish)));
        }
        for session in self.seat.namespaces.missing_sessions(self.now_ms) {
            if self.sessions.clients.has_number(session) {
                self.seat.namespaces.found_session(session);
            } else {
                self.end_pooled_adoptions(session);
            }
        }
    }

    /// No agent came in time.
    pub(super) fn end_adoption_requests(&mut self) {
        for waiting in self.seat.namespaces.take_overdue(None) {
            self.answer_adoption(&waiting, Reply::Failed(not_answered(waiting.wish)));
        }
    }
}

fn adopted_by_another() -> Failure {
    Failure::of(Code::Exists).with_detail("another client has adopted this namespace")
}

fn not_answered(wish: Wish) -> Failure {
    Failure::of(Code::Unreachable).with_detail(match wish {
        Wish::Adopt => {
            "etcd or a node of the pool did not answer in time, so it is not known whether the \
             namespace is adopted: adopt it again"
        }
        Wish::End => {
            "the pool did not answer in time; the adoption ends when etcd and the pool daemon are \
             reached"
        }
    })
}

fn failure_of(refusal: AdoptionRefusal) -> Failure {
    match refusal {
        AdoptionRefusal::Exists => adopted_by_another(),
        AdoptionRefusal::NotSwept(node) => Failure::of(Code::InUse).with_detail(format!(
            "the program that had adopted this namespace has ended, and the node {node} has not \
             deleted everything in it yet: try again later, or give the node up with `plasmon pool \
             forget` if it will not come back"
        )),
        AdoptionRefusal::LimitReached(limit) => Failure::of(Code::LimitReached)
            .with_amounts(limit.saturating_add(1), limit)
            .with_detail("the pool has adopted the maximum number of namespaces"),
        AdoptionRefusal::Unreachable => not_answered(Wish::Adopt),
    }
}
