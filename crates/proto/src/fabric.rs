//! By which providers of libfabric nodes of a pool write into each other's memory: the setting
//! `pool_fabric`.

use std::fmt;
use std::str::FromStr;

/// A provider of libfabric, by what it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// InfiniBand, RoCE and iWARP cards.
    Verbs,
    /// The cards of Amazon's machines.
    Efa,
    /// libfabric's own protocol over TCP: `net` in 1.17, `tcp` since 1.18.
    Net,
    /// Shared memory, between processes of one machine.
    Shm,
}

impl Provider {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Verbs, Self::Efa, Self::Net, Self::Shm];

    /// Those that need a card, and no processor while they move bytes.
    pub const WITH_CARD: [Self; 2] = [Self::Verbs, Self::Efa];

    /// What the setting calls it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Verbs => "verbs",
            Self::Efa => "efa",
            Self::Net => "net",
            Self::Shm => "shm",
        }
    }

    /// Whether it reaches other machines.
    pub fn reaches_machines(self) -> bool {
        self != Self::Shm
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// Which providers are tried.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// Those with a card, [`Provider::WITH_CARD`]; where none works, TCP.
    Auto,
    /// None.
    #[default]
    Off,
    /// These, the best first; where none works, TCP.
    These(Vec<Provider>),
}

/// Why a text does not say which providers are tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{found}\" is not a fabric: say auto, off, or providers in the order in which they are \
     tried, separated by semicolons: verbs, efa, net, shm, and at the end tcp for the pool's own \
     connections"
)]
pub struct BadChoice {
    /// The part that is not known, or out of place.
    pub found: String,
}

impl Choice {
    /// The providers that are tried, in their order.
    pub fn providers(&self) -> &[Provider] {
        match self {
            Self::Auto => &Provider::WITH_CARD,
            Self::Off => &[],
            Self::These(providers) => providers,
        }
    }
}

impl FromStr for Choice {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        let bad = |found: &str| BadChoice { found: found.to_owned() };
        match text {
            "auto" => return Ok(Self::Auto),
            "off" | "tcp" => return Ok(Self::Off),
            _ => {}
        }
        let mut providers = Vec::new();
        let mut words = text.split(';').peekable();
        while let Some(word) = words.next() {
            // The pool's own connections are what is left, whether it is said or not.
            if word == "tcp" && words.peek().is_none() {
                break;
            }
            let known = Provider::ALL.into_iter().find(|provider| provider.key() == word);
            let provider = known.ok_or_else(|| bad(word))?;
            if providers.contains(&provider) {
                return Err(bad(word));
            }
            providers.push(provider);
        }
        Ok(Self::These(providers))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Off => f.write_str("off"),
            Self::These(providers) => {
                let words: Vec<&str> = providers.iter().map(|provider| provider.key()).collect();
                write!(f, "{}", words.join(";"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_and_shown() {
        use Provider::{Efa, Net, Shm, Verbs};
        for (text, providers, shown) in [
            ("auto", vec![Verbs, Efa], "auto"),
            ("verbs;efa;net;shm", vec![Verbs, Efa, Net, Shm], "verbs;efa;net;shm"),
            ("off", vec![], "off"),
            ("tcp", vec![], "off"),
            ("verbs", vec![Verbs], "verbs"),
            ("verbs;tcp", vec![Verbs], "verbs"),
            ("shm;net", vec![Shm, Net], "shm;net"),
        ] {
            let choice: Choice = text.parse().unwrap();
            assert_eq!(choice.providers(), providers, "{text}");
            assert_eq!(choice.to_string(), shown);
            assert_eq!(shown.parse(), Ok(choice), "{text}");
        }
        assert_eq!(Choice::default(), Choice::Off);
    }

    #[test]
    fn what_is_not_a_choice_is_refused() {
        for (text, found) in [
            ("", ""),
            ("AUTO", "AUTO"),
            ("verbs;", ""),
            ("tcp;verbs", "tcp"),
            ("verbs;auto", "auto"),
            ("net;net", "net"),
            ("sockets", "sockets"),
            ("verbs,tcp", "verbs,tcp"),
        ] {
            assert_eq!(
                text.parse::<Choice>(),
                Err(BadChoice { found: found.to_owned() }),
                "{text}"
            );
        }
    }
}
