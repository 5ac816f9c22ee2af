//! Where in a value something is, in words for an error.

use crate::check::ValidObject;
use crate::codes::{elem, kind, slot};
use crate::sizes::at;

/// Steps of a path that an error shows; a longer one is shortened.
const STEPS_MAX: usize = 12;

/// The target of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Node(usize),
    Ext(usize),
}

impl ValidObject<'_> {
    /// Where the first object of a class is.
    pub fn locate_class(&self, class: usize) -> String {
        let nodes = &self.view.nodes;
        let is_of = |node: &usize| match nodes.kind[*node] {
            kind::OBJECT => nodes.start2.index(*node) == class,
            kind::OBJECT_ROWS => nodes.start.index(*node) == class,
            _ => false,
        };
        match (0..self.view.count(at::NODES)).find(is_of) {
            Some(node) => self.locate(Target::Node(node)),
            None => "nowhere".to_owned(),
        }
    }

    /// Where an extension is first.
    pub fn locate_ext(&self, ext: usize) -> String {
        let classes = &self.view.classes;
        let class =
            (0..self.view.count(at::CLASSES)).find(|class| classes.ext.index(*class) == ext);
        class.map_or_else(|| self.locate(Target::Ext(ext)), |class| self.locate_class(class))
    }

    fn locate(&self, target: Target) -> String {
        let (mut steps, mut target) = (Vec::new(), target);
        while let Some((node, step)) = self.owner(target) {
            steps.push(step);
            target = Target::Node(node);
            if steps.len() > STEPS_MAX {
                steps.push("...".to_owned());
                break;
            }
        }
        let root = if steps.is_empty() { "the root" } else { "root" };
        std::iter::once(root.to_owned()).chain(steps.into_iter().rev()).collect()
    }

    /// The node that holds something, and where in it.
    fn owner(&self, target: Target) -> Option<(usize, String)> {
        let nodes = &self.view.nodes;
        (0..self.view.count(at::NODES)).find_map(|node| {
            let (start, length) = (nodes.start.index(node), nodes.length.index(node));
            let start2 = nodes.start2.index(node);
            let kind = nodes.kind[node];
            let first = if kind == kind::DICT_ROWS { start2 } else { length };
            let in_rows = matches!(kind, kind::DICT_ROWS | kind::TUPLE_ROWS | kind::OBJECT_ROWS);
            if in_rows && self.position(elem::NODES, node + 1, start2, target).is_some() {
                return Some((node, "[row]".to_owned()));
            }
            if kind == kind::TUPLE_ROWS || kind == kind::OBJECT_ROWS {
                return None;
            }
            if let Some(position) = self.position(nodes.elem[node], start, first, target) {
                return Some((node, step(kind, position)));
            }
            let second = (kind == kind::DICT)
                .then(|| self.position(nodes.elem2[node], start2, length, target))
                .flatten();
            second.map(|position| (node, format!(".values()[{position}]")))
        })
    }

    fn position(&self, elem: u8, start: usize, length: usize, target: Target) -> Option<usize> {
        let inside = |entry: usize| entry.checked_sub(start).is_some_and(|at| at < length);
        match (elem, target) {
            (elem::NODES, Target::Node(node)) if inside(node) => Some(node - start),
            (elem::ROWS, Target::Node(node)) if start == node => Some(0),
            (elem::EXTS, Target::Ext(ext)) if inside(ext) => Some(ext - start),
            (elem::SLOTS, _) => {
                let slots = self.view.slots.kind.get(start..)?.len().min(length);
                (0..slots).find(|at| self.slot_is(start + at, target))
            }
            _ => None,
        }
    }

    fn slot_is(&self, number: usize, target: Target) -> bool {
        let slots = &self.view.slots;
        match (slots.kind[number], target) {
            (slot::NODE, Target::Node(node)) => slots.index(number, slot::NODE) == node,
            (slot::EXT, Target::Ext(ext)) => slots.index(number, slot::EXT) == ext,
            _ => false,
        }
    }
}

fn step(kind: u8, position: usize) -> String {
    match kind {
        kind::DICT | kind::DICT_ROWS => format!(".keys()[{position}]"),
        kind::SET | kind::FROZENSET => format!("{{item {position}}}"),
        kind::OBJECT => format!("(part {position})"),
        kind::FIELD => format!("[{position}]"),
        _ => format!("[{position}]"),
    }
}
