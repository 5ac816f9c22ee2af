//! Deletes what is here of namespaces of the pool that have ended.
//!
//! Every node does so with the copies that it has, and as long as there are any: one that arrives
//! later, from a node that has not heard of the end, goes as well. The pool deletes the objects, on
//! all nodes, so one copy that a node shows is enough for the object to go.

use std::ops::Bound::{Excluded, Unbounded};

use plasmon_proto::ObjectId;
use plasmon_proto::pool_adoption::AdoptionCall;

use crate::ports::Directory;
use crate::store::Store;
use crate::work::{EXAMINED_MAX, PIECE};

/// Deletes of the pool that are under way at one time.
const UNDER_WAY_MAX: usize = 1024;

/// After so long what is still here is deleted again.
const AGAIN_MS: u64 = 1_000;

impl<D: Directory> Store<D> {
    /// Deletes a piece, if it is time for that.
    pub(crate) fn go_on_sweeping(&mut self) {
        let is_due = self.seat.sweep.again_ms.is_some_and(|at_ms| at_ms <= self.now_ms);
        let is_dirty = std::mem::take(&mut self.sessions.adoptions.pool.is_dirty);
        if is_due || is_dirty {
            self.seat.sweep.again_ms = None;
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        if self.seat.hears().is_none() {
            // An agent that has been told what is here makes it due again.
            return self.report_sweep(false);
        }
        let room = UNDER_WAY_MAX.saturating_sub(self.seat.deletes.len()).min(PIECE);
        let (ids, after) = self.next_to_sweep(room);
        let is_more = after.is_some();
        // Where there is no room, answers make it due.
        self.sessions.adoptions.pool.is_dirty = is_more && room == PIECE;
        self.seat.sweep.after = after;
        let is_clean = !is_more && ids.is_empty() && self.is_swept();
        for id in ids {
            self.forward_delete(&id);
        }
        if !is_clean {
            self.seat.sweep.again_ms = Some(self.now_ms.saturating_add(AGAIN_MS));
        }
        self.report_sweep(is_clean);
    }

    /// At most so many objects of namespaces that have ended, and after which one to go on. Those
    /// whose deletes are under way are passed over.
    fn next_to_sweep(&self, count: usize) -> (Vec<ObjectId>, Option<(String, ObjectId)>) {
        let adoptions = &self.sessions.adoptions;
        let first = self.seat.sweep.after.as_ref();
        let (mut ids, mut examined) = (Vec::new(), 0);
        for namespace in adoptions.pool.ended_from(first.map_or("", |(namespace, _)| namespace)) {
            let Some(inside) = adoptions.ids_in(namespace) else { continue };
            let mut last = first.filter(|(at, _)| at == namespace).map(|(_, id)| *id);
            for id in inside.range((last.map_or(Unbounded, Excluded), Unbounded)).map(|it| *it.0) {
                if ids.len() >= count || examined >= EXAMINED_MAX {
                    // Before the first one of a namespace there is no other.
                    let last = last.unwrap_or(ObjectId::new([0; 20]));
                    return (ids, Some((namespace.clone(), last)));
                }
                (last, examined) = (Some(id), examined + 1);
                if !self.seat.deletes.contains_key(&id) {
                    ids.push(id);
                }
            }
        }
        (ids, None)
    }

    /// Whether nothing is here of any namespace that has ended, also nothing that is not shown.
    fn is_swept(&self) -> bool {
        let pool = &self.sessions.adoptions.pool;
        if pool.is_empty() {
            return true;
        }
        let is_empty = |namespace: &String| self.sessions.adoptions.ids_in(namespace).is_none();
        if !self.is_vouched(&ObjectId::pooled([0; 12], None)) || !pool.ended_from("").all(is_empty)
        {
            return false;
        }
        !self.seat.withheld.values().any(|withheld| {
            let extras = self.objects.extras_of(withheld.record);
            let name = extras.and_then(|extras| extras.attributes.name.as_ref());
            name.is_some_and(|name| pool.is_ended(&name.namespace))
        })
    }

    /// Says how far this store is, when that has changed.
    fn report_sweep(&mut self, is_clean: bool) {
        let seen = self.seat.namespaces.seen;
        let swept = if is_clean { seen } else { 0 };
        if self.seat.sweep.told != Some((seen, swept)) {
            self.seat.sweep.told = Some((seen, swept));
            self.call_adoption(AdoptionCall::Progress { seen, swept });
        }
    }
}
