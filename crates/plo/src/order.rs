//! The order in which nodes are built.
//!
//! Without references every node's parts have greater numbers than the node, so nodes are built
//! from the last to the first. With references, or when objects are made by calls (which may see
//! their arguments), it is the order in which a recursive reader would finish nodes: children
//! first, from the root. A mutable node that is still open when something refers to it is made
//! empty then and filled in its turn. An immutable one must be complete: the walk visits the rest
//! of it at once, and it is listed early. The arguments of an object that is referred to from
//! within them must be complete, too; an object in between is made, and gets its state later, as
//! with pickle. See "What must exist first" in `spec/objects.md`.
//!
//! ```text
//! new ── met by its owner ──► open ── its children are done ──► done
//!                               └─ referred to, immutable: listed early ─┘
//! ```
//!
//! A dict or a set is filled in its turn, because an object that is finished next may look into it.
//! If the hash of a key may depend on an object that has no state yet, it is filled once more after
//! everything else.
//!
//! The object was checked, and may be written to since: a child that is not a node is an error.
//!
//! The walk has its own stack, so depth has no limit, and each child is visited once: the
//! position in a node is kept with the node, also when the walk is in it a second time.

use crate::check::ValidObject;
use crate::codes::{elem, kind, make, slot, source};
use crate::error::{Result, broken};
use crate::sizes::at;

const OWN_ARGUMENTS: &str = "an object that is among its own arguments";

/// The levels of containers that a callable inspects: the tuple of its arguments and each of
/// them. Deeper contents mostly belong to the object and may be incomplete.
const LOOKED_INTO: u8 = 2;

/// With more objects in one another's arguments than this, all get them as far as they are built.
const RELAXED_MAX: usize = 16;

/// The order in which to build the nodes that stand for values, and row nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the last to the first.
    Backwards,
    /// As listed. A node that is referred to before it is built is mutable: it is made empty.
    Listed {
        /// Every node, once.
        nodes: Vec<u32>,
        /// Dicts and sets among them that are filled again at the end: until then the hash of a key
        /// may be unknown, or another one.
        again: Vec<u32>,
    },
}

impl Order {
    /// The order for an object.
    pub fn of(object: &ValidObject<'_>) -> Result<Self> {
        if !object.has_refs && !object.has_calls {
            return Ok(Self::Backwards);
        }
        if object.view.count(at::NODES) == 0 {
            return Ok(Self::Listed { nodes: Vec::new(), again: Vec::new() });
        }
        Walk::new(object).run()
    }
}

/// The progress of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    New,
    Open,
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    stage: Stage,
    /// Listed already, in its turn or early.
    listed: bool,
    /// Its hash may depend on an object that has no state yet.
    unsettled: bool,
    /// The same for the hash of one of its keys.
    unsettled_keys: bool,
    /// The next child: in which run, and how far in it.
    run: u8,
    at: u32,
    /// Where on the stack the node is, at its highest.
    frame: u32,
}

/// The nodes that must be complete before an open node can be.
struct Prerequisites {
    /// Nodes that must be whole.
    whole: Vec<u32>,
    /// How many objects there are on the way.
    objects: usize,
    /// Those of them that have arguments that the walk has not met yet.
    unfinished: Vec<u32>,
}

struct Walk<'o, 'a> {
    object: &'o ValidObject<'a>,
    states: Vec<State>,
    /// The nodes that the walk is in. One that was entered again is there again.
    stack: Vec<u32>,
    order: Vec<u32>,
    /// Dicts and sets that are filled again after everything else.
    again: Vec<u32>,
}

impl<'o, 'a> Walk<'o, 'a> {
    fn new(object: &'o ValidObject<'a>) -> Self {
        let nodes = object.view.count(at::NODES);
        let order = Vec::with_capacity(nodes);
        let states = vec![State::default(); nodes];
        Self { object, states, stack: Vec::new(), order, again: Vec::new() }
    }

    fn run(mut self) -> Result<Order> {
        self.enter(0);
        while let Some(node) = self.stack.last().copied() {
            match self.next_child(node) {
                Some(child) => self.meet(node, child)?,
                None => self.leave(node),
            }
        }
        Ok(Order::Listed { nodes: self.order, again: self.again })
    }

    fn enter(&mut self, node: u32) {
        let frame = self.stack.len() as u32;
        let state = &mut self.states[node as usize];
        state.stage = Stage::Open;
        state.frame = frame;
        self.stack.push(node);
    }

    fn kind(&self, node: u32) -> u8 {
        self.object.view.nodes.kind[node as usize]
    }

    /// A child of the node on top.
    fn meet(&mut self, parent: u32, child: u32) -> Result<()> {
        let Some(state) = self.states.get(child as usize) else {
            return broken("a value that is not a node", child);
        };
        let State { stage, listed, unsettled, .. } = *state;
        match stage {
            Stage::New => self.enter(child),
            Stage::Done => self.unsettle(parent, unsettled),
            Stage::Open => {
                let object = self.kind(child) == kind::OBJECT;
                self.unsettle(parent, unsettled || object);
                if !listed && !self.can_be_empty(child) {
                    self.enter_again(child)?;
                }
            }
        }
        Ok(())
    }

    /// Notes a child's effect on the hash of its parent, and of its parent's keys.
    fn unsettle(&mut self, parent: u32, unsettled: bool) {
        let keys = match self.kind(parent) {
            kind::SET => true,
            kind::DICT => self.states[parent as usize].run == 0,
            _ => false,
        };
        let state = &mut self.states[parent as usize];
        state.unsettled |= unsettled;
        state.unsettled_keys |= unsettled && keys;
    }

    /// The walk is through a node.
    fn leave(&mut self, node: u32) {
        self.stack.pop();
        let kind = self.kind(node);
        let state = &mut self.states[node as usize];
        if !state.listed {
            state.listed = true;
            if matches!(kind, kind::DICT | kind::SET) && state.unsettled_keys {
                self.again.push(node);
            }
            if kind != kind::FIELD {
                self.order.push(node);
            }
        }
        // One that was entered again is left when the walk is back in it for the first time.
        state.stage = Stage::Done;
        let unsettled = state.unsettled;
        if let Some(parent) = self.stack.last().copied() {
            self.unsettle(parent, unsettled);
        }
    }

    /// Whether an open node can be made without what it still waits for.
    fn can_be_empty(&self, node: u32) -> bool {
        match self.kind(node) {
            kind::TUPLE | kind::FROZENSET | kind::DICT_ROWS..=kind::FIELD => false,
            kind::OBJECT => !self.arguments_wait(node),
            _ => true,
        }
    }

    /// How many of the parts of an object are its arguments.
    fn arguments(&self, node: u32) -> u32 {
        let view = &self.object.view;
        let class = view.nodes.start2.index(node as usize);
        match view.classes.make.get(class).copied() {
            Some(make::ATTRIBUTES | make::VALUE) => 0,
            Some(make::NEW_EX) => 2,
            _ => 1,
        }
    }

    /// Whether the walk is still in what an open object is made of, and that is not there yet.
    fn arguments_wait(&self, node: u32) -> bool {
        let arguments = self.arguments(node);
        // The walk is in the part before the one that it would look at next.
        if self.states[node as usize].at > arguments || arguments == 0 {
            return false;
        }
        let part = self.after(node);
        part.is_none_or(|part| !self.states[part as usize].listed)
    }

    /// The node after this one on the stack, where this one was last entered.
    fn after(&self, node: u32) -> Option<u32> {
        self.stack.get(self.states[node as usize].frame as usize + 1).copied()
    }

    /// Visits the rest of an open node that must be complete now, and of the nodes within it on
    /// the stack that must be as well: immutables, the arguments of an object, and the containers
    /// that are arguments, because the callable may look into them. One that contains itself, with
    /// nothing in between that can be empty, is taken as far as it is built.
    fn enter_again(&mut self, node: u32) -> Result<()> {
        let Prerequisites { objects, .. } = self.needed(node, usize::MAX);
        // The innermost first: incomplete arguments go to an object on the way rather than to the
        // object itself, whose arguments may have been made for it.
        let few = objects.saturating_sub(RELAXED_MAX);
        for strict in (few..=objects).rev().chain((few != 0).then_some(0)) {
            let Prerequisites { whole, unfinished, .. } = self.needed(node, strict);
            if self.can_be_whole(&whole) {
                whole.into_iter().for_each(|again| self.enter(again));
                unfinished.into_iter().for_each(|object| self.enter_arguments(object));
                return Ok(());
            }
        }
        match self.kind(node) {
            kind::OBJECT => broken(OWN_ARGUMENTS, node),
            _ => broken("an immutable that contains itself", node),
        }
    }

    /// Visits those arguments of an object that the walk has not met yet: keyword arguments come
    /// after the others.
    fn enter_arguments(&mut self, object: u32) {
        let last = self.arguments(object);
        while self.states[object as usize].at < last {
            let before = self.states[object as usize];
            let child = self.next_child(object);
            let now = self.states[object as usize];
            let Some(child) = child.filter(|_| (now.run, now.at) <= (before.run, last)) else {
                // It is the state, which comes in its turn.
                self.states[object as usize] = before;
                return;
            };
            if self.states.get(child as usize).is_some_and(|state| state.stage == Stage::New) {
                self.enter(child);
            }
        }
    }

    /// The nodes that must be complete before an open node can be, from it to the walk's position.
    /// The first `strict` objects there look into their arguments.
    fn needed(&self, node: u32, strict: usize) -> Prerequisites {
        let (mut needed, mut objects, mut unfinished) = (Vec::new(), 0, Vec::new());
        // How many containers on the way are looked into.
        let mut whole = 0;
        let mut next = Some(node);
        while let Some(again) = next {
            let is_object = self.kind(again) == kind::OBJECT;
            if self.states[again as usize].listed
                || self.can_be_empty(again) && (is_object || whole == 0)
            {
                break;
            }
            if is_object {
                if self.states[again as usize].at < self.arguments(again) {
                    unfinished.push(again);
                }
                let looks = objects < strict && !self.takes_anything(again);
                whole = if looks { LOOKED_INTO } else { 0 };
                objects += 1;
            } else {
                needed.push(again);
                whole = whole.saturating_sub(1);
            }
            next = self.after(again);
        }
        Prerequisites { whole: needed, objects, unfinished }
    }

    /// Whether these can be whole now. On the stack, each node needs the one above it to be whole
    /// if it cannot be empty itself. So such nodes at the top wait for what the walk is in; if that
    /// needs one of them, nothing can be built.
    fn can_be_whole(&self, needed: &[u32]) -> bool {
        let mut waiting = self.stack.len();
        while waiting > 0 && self.waits(self.stack[waiting - 1], needed) {
            waiting -= 1;
        }
        needed.iter().all(|again| (self.states[*again as usize].frame as usize) < waiting)
    }

    /// Whether what an object is made by does not look into its arguments, as for the method of an
    /// object.
    fn takes_anything(&self, node: u32) -> bool {
        let classes = &self.object.view.classes;
        let class = self.object.view.nodes.start2.index(node as usize);
        classes.source.get(class) == Some(&source::IMPORTABLE)
            && classes.name.at(class) == b"builtins:getattr"
    }

    /// Whether an open node cannot be there, or not whole if that is needed, before what the walk
    /// is in is.
    fn waits(&self, node: u32, whole: &[u32]) -> bool {
        !self.states[node as usize].listed && (!self.can_be_empty(node) || whole.contains(&node))
    }

    /// The next node among the values of a node.
    fn next_child(&mut self, node: u32) -> Option<u32> {
        let nodes = &self.object.view.nodes;
        let number = node as usize;
        let State { mut run, mut at, .. } = self.states[number];
        let (kind, length) = (nodes.kind[number], nodes.length.index(number));
        let (start, start2) = (nodes.start.index(number), nodes.start2.index(number));
        let child = loop {
            let (elem, start, length) = match (kind, run) {
                (kind::DICT_ROWS, 0) => (nodes.elem[number], start, start2),
                (kind::DICT_ROWS, 1) | (kind::TUPLE_ROWS | kind::OBJECT_ROWS, 0) => {
                    (elem::NODES, number + 1, start2)
                }
                (kind::DICT, 1) => (nodes.elem2[number], start2, length),
                (kind::DICT_ROWS | kind::TUPLE_ROWS | kind::OBJECT_ROWS, _) => break None,
                (_, 0) => (nodes.elem[number], start, length),
                _ => break None,
            };
            let child = self.next_in_run(elem, start, length, &mut at);
            if child.is_some() {
                break child;
            }
            run += 1;
            at = 0;
        };
        let state = &mut self.states[number];
        (state.run, state.at) = (run, at);
        child
    }

    fn next_in_run(&self, elem: u8, start: usize, length: usize, at: &mut u32) -> Option<u32> {
        let position = *at as usize;
        match elem {
            elem::NODES if position < length => {
                *at += 1;
                Some(start.saturating_add(position) as u32)
            }
            elem::ROWS if position == 0 => {
                *at = 1;
                Some(start as u32)
            }
            elem::SLOTS if position < length => {
                let slots = &self.object.view.slots;
                let kinds = slots.kind.get(start..)?.get(position..length)?;
                let nodes = |kind: &&u8| matches!(**kind, slot::NODE | slot::REF);
                let (next, kind) = kinds.iter().enumerate().find(|(_, kind)| nodes(kind))?;
                *at = (position + next + 1) as u32;
                Some(slots.index(start + position + next, *kind) as u32)
            }
            _ => None,
        }
    }
}
