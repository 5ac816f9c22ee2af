//! The manifest of some data: its owner, its generation, and the files that were written.
//!
//! A text in the folder of the data, to which lines are added. The last one of a kind counts, and a
//! last line without its end is one that a killed process was writing: it counts for nothing.
//!
//! ```text
//! # The data of an HDF5 file ...                    for people
//! plasmon-hdf5 1 3f2a91c07b5de412                    the data
//! owner 131942 1763859000000000001 out.h5            the skeleton: inode, birth, name
//! home 131945                                        the inode of this text
//! generation 9a01c7d2e65f0b38
//! made run1/x.arrow
//! next 51b7...                                       the skeleton may have this one already
//! generation 51b7...                                 it does: from here on data is changed
//! gone run1/x.arrow
//! objects 131945                                     there are objects in stores, of this inode's
//! store /run/user/1000/plasmon.sock                  in this store
//! ```
//!
//! The order of a change is what keeps a copy of the skeleton from seeing other data: first `next`,
//! then the skeleton, then `generation`, and only then the data. A skeleton is right as long as it
//! says the generation, or the next one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::data_id::Mark;
use crate::identity::{escaped, unescaped};

/// The start of the text.
const ABOUT: &str = "\
# The data of an HDF5 file, written by the connector of Plasmon. It belongs to the file that is
# named below as its owner: move, copy and remove both together.
";
/// The start of the line with the version of the text and the id of the data.
const VERSION: &str = "plasmon-hdf5 ";

/// The skeleton that may change the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The number of its inode, which stays when it is moved, and which no copy has.
    pub inode: u64,
    /// When the inode was made, in nanoseconds; 0 where it is not recorded. Numbers of
    /// inodes are used again.
    pub birth: u64,
    /// Its name when it was last seen.
    pub name: Vec<u8>,
}

impl Owner {
    /// Whether it is the same file, whatever it is called. Where the birth of one is unknown the
    /// inode decides.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let births = [self.birth, other.birth];
        self.inode == other.inode && (births[0] == births[1] || births.contains(&0))
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The skeleton that may change the data.
    Owner(Owner),
    /// Which inode the text is in: in a copy of it this is another one.
    Home(u64),
    /// The generation of the data.
    Generation(Mark),
    /// The generation that the skeleton may have already.
    Next(Mark),
    /// A file that is about to be written, from the folder of the data.
    Made(String),
    /// A file that was removed or renamed.
    Gone(String),
    /// The data has objects in stores, which belong to the text in this inode: a copy of the text
    /// has no copies of them.
    Objects(u64),
    /// The socket of a store that has objects of the data.
    Store(String),
}

impl Entry {
    /// The line, with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        match self {
            Self::Owner(owner) => {
                format!("owner {} {} {}\n", owner.inode, owner.birth, escaped(&owner.name))
            }
            Self::Home(inode) => format!("home {inode}\n"),
            Self::Generation(mark) => format!("generation {mark}\n"),
            Self::Next(mark) => format!("next {mark}\n"),
            Self::Made(file) => format!("made {}\n", escaped(file.as_bytes())),
            Self::Gone(file) => format!("gone {}\n", escaped(file.as_bytes())),
            Self::Objects(inode) => format!("objects {inode}\n"),
            Self::Store(socket) => format!("store {}\n", escaped(socket.as_bytes())),
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        Some(match kind {
            "owner" => {
                let mut parts = rest.splitn(3, ' ');
                let mut number = || parts.next()?.parse().ok();
                let (inode, birth) = (number()?, number()?);
                Self::Owner(Owner { inode, birth, name: unescaped(parts.next()?)? })
            }
            "home" => Self::Home(rest.parse().ok()?),
            "generation" => Self::Generation(Mark::of_text(rest)?),
            "next" => Self::Next(Mark::of_text(rest)?),
            "made" => Self::Made(String::from_utf8(unescaped(rest)?).ok()?),
            "gone" => Self::Gone(String::from_utf8(unescaped(rest)?).ok()?),
            "objects" => Self::Objects(rest.parse().ok()?),
            "store" => Self::Store(String::from_utf8(unescaped(rest)?).ok()?),
            _ => return None,
        })
    }
}

/// A manifest, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The data.
    pub data: Mark,
    /// The skeleton that may change the data.
    pub owner: Owner,
    /// Which inode the text was in when it was written.
    pub home: u64,
    /// The generation of the data.
    pub generation: Mark,
    /// The one that the skeleton may have already.
    pub next: Option<Mark>,
    /// The files that were written, from the folder of the data. Nothing else is ever removed.
    pub files: BTreeSet<String>,
    /// The inode of the text that objects in stores belong to; `None` when there are none.
    pub objects: Option<u64>,
    /// The sockets of the stores that may have them.
    pub stores: BTreeSet<String>,
    /// How many lines there are.
    pub lines: usize,
}

impl Manifest {
    /// Reads the text. The error says what is wrong with it.
    ///
    /// # Errors
    ///
    /// It is of another version, a line is invalid, or something is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines().filter(|line| !line.starts_with('#'));
        let begun = lines.next().and_then(|line| line.strip_prefix(VERSION)?.split_once(' '));
        let data = match begun {
            Some(("1", data)) => Mark::of_text(data),
            Some((other, _)) => {
                return Err(format!("it is of version {other}, and only 1 is known"));
            }
            None => None,
        };
        let data = data.ok_or("it does not start like a manifest")?;
        let (mut owner, mut home, mut generation, mut next) = (None, None, None, None);
        let (mut files, mut stores) = (BTreeSet::new(), BTreeSet::new());
        let (mut objects, mut count) = (None, 0);
        for line in lines {
            count += 1;
            let entry = Entry::of_line(line).ok_or_else(|| format!("it has the line {line:?}"))?;
            match entry {
                Entry::Owner(found) => owner = Some(found),
                Entry::Home(found) => home = Some(found),
                Entry::Generation(found) => (generation, next) = (Some(found), None),
                Entry::Next(found) => next = Some(found),
                Entry::Made(file) => drop(files.insert(file)),
                Entry::Gone(file) => drop(files.remove(&file)),
                Entry::Objects(found) => objects = Some(found),
                Entry::Store(socket) => drop(stores.insert(socket)),
            }
        }
        match (owner, home, generation) {
            (Some(owner), Some(home), Some(generation)) => {
                let lines = count;
                Ok(Self { data, owner, home, generation, next, files, objects, stores, lines })
            }
            _ => Err("it does not say whose data this is".to_owned()),
        }
    }

    /// The text with one line for everything that counts.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{ABOUT}{VERSION}1 {}\n", self.data);
        let mut add = |entry: Entry| text.write_str(&entry.to_line());
        let entries = [
            Entry::Owner(self.owner.clone()),
            Entry::Home(self.home),
            Entry::Generation(self.generation),
        ];
        let files = self.files.iter().map(|file| Entry::Made(file.clone()));
        let others = self.next.map(Entry::Next).into_iter().chain(self.objects.map(Entry::Objects));
        let stores = self.stores.iter().map(|socket| Entry::Store(socket.clone()));
        for entry in entries.into_iter().chain(others).chain(stores).chain(files) {
            // Writing to a text cannot fail.
            let _ = add(entry);
        }
        text
    }

    /// Whether a skeleton of a generation is that of the data as it is.
    #[must_use]
    pub fn fits(&self, generation: Mark) -> bool {
        generation == self.generation || Some(generation) == self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Manifest {
        Manifest {
            data: Mark(3),
            owner: Owner { inode: 7, birth: 1_763_859_000_000_000_001, name: b"a b%\xff".to_vec() },
            home: 9,
            generation: Mark(1),
            next: Some(Mark(2)),
            files: ["g/x.arrow", "run 1/\u{fc}.arrow"].map(str::to_owned).into(),
            objects: Some(9),
            stores: ["/run/a b.sock".to_owned()].into(),
            lines: 8,
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        assert_eq!(Manifest::parse(&some().to_text()), Ok(some()));
    }

    #[test]
    fn lines_are_added_and_the_last_one_counts() {
        let mut text = some().to_text();
        for entry in [
            Entry::Gone("g/x.arrow".to_owned()),
            Entry::Generation(Mark(2)),
            Entry::Made("g/y.arrow".to_owned()),
            Entry::Home(11),
        ] {
            text.push_str(&entry.to_line());
        }
        let found = Manifest::parse(&text).expect("read");
        assert_eq!((found.home, found.generation, found.next), (11, Mark(2), None));
        assert!(found.fits(Mark(2)) && !found.fits(Mark(1)));
        assert!(found.files.contains("g/y.arrow") && !found.files.contains("g/x.arrow"));
    }

    /// A process that is killed while it writes leaves part of a line.
    #[test]
    fn what_was_not_written_to_its_end_counts_for_nothing() {
        let before = some().to_text();
        let line = Entry::Generation(Mark(3)).to_line();
        for end in 0..line.len() {
            let found = Manifest::parse(&format!("{before}{}", &line[..end])).expect("read");
            assert_eq!(found, some());
        }
        // The first text is complete before it has its name: a part of it is damage.
        let text = some().to_text();
        for end in 0..text.len() {
            let found = Manifest::parse(&text[..end]);
            assert!(found.is_err() || found.is_ok_and(|found| found.owner == some().owner));
        }
    }

    #[test]
    fn other_strings_are_refused() {
        let text = some().to_text();
        for wrong in [
            String::new(),
            text.replace("hdf5 1 ", "hdf5 2 "),
            text.replace("owner", "master"),
            text.replace("made g", "made %g"),
            text.replace("home 9", "home nine"),
            text.replace("home 9\n", ""),
            text.replace("objects 9", "objects nine"),
        ] {
            assert!(Manifest::parse(&wrong).is_err(), "{wrong}");
        }
    }
}
