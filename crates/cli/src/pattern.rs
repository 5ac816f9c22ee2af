//! Patterns such as `tmp*`, as in a shell: `*` for any letters, `?` for one, `[ab]` for a set.

use plasmon_proto::id::POOLED_PREFIX;

/// Whether a string is a pattern rather than a name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The namespace of the pool that a pattern is about: `@prod` of `@prod:2024*`.
pub(crate) fn pooled_namespace(text: &str) -> Option<&str> {
    let (namespace, _) = text.split_once(':')?;
    (namespace.starts_with(POOLED_PREFIX) && !is_pattern(namespace)).then_some(namespace)
}

/// Whether the pattern matches a whole string.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where to go on when what follows the last star does not fit: the star takes one letter more.
    let mut star = None;
    while seen < text.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
                continue;
            }
            Some(_) => one(&pattern[at..], text[seen]),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => {
                at += step;
                seen += 1;
            }
            (None, Some((from, taken))) => {
                star = Some((from, taken + 1));
                (at, seen) = (from + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

/// How many letters of the pattern stand for this one; `None` when they do not.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            let Some(end) = rest.iter().skip(1).position(|letter| *letter == ']') else {
                return (letter == '[').then_some(1);
            };
            let set = &rest[..=end];
            let (set, inside) = match set {
                ['!' | '^', set @ ..] => (set, false),
                set => (set, true),
            };
            (contains(set, letter) == inside).then_some(end + 3)
        }
        [own, ..] => (*own == letter).then_some(1),
        [] => None,
    }
}

/// Whether a set such as `a-z_` has a letter.
fn contains(mut set: &[char], letter: char) -> bool {
    loop {
        match set {
            [from, '-', to, rest @ ..] => {
                if (*from..=*to).contains(&letter) {
                    return true;
                }
                set = rest;
            }
            [own, rest @ ..] => {
                if *own == letter {
                    return true;
                }
                set = rest;
            }
            [] => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_does() {
        for (pattern, text, matched) in [
            ("*", "", true),
            ("*", "n:x", true),
            ("tmp*", "tmp/1", true),
            ("tmp*", "atmp", false),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xaxbx", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]1", "b1", true),
            ("[!a-c]1", "b1", false),
            ("[!a-c]1", "d1", true),
            ("[]]", "]", true),
            ("[x", "[x", true),
            ("x", "x", true),
            ("x", "xy", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, text), matched, "{pattern} {text}");
        }
        let (pattern, text) = ("*a".repeat(40) + "b", "a".repeat(4000));
        assert!(!matches(&pattern, &text), "it ends");
    }
}
