//! The command line of spark-submit, as far as it decides about the shuffle: which class paths are
//! joined with ours, and the options of `submit` that stand among those of spark-submit.
//!
//! Spark takes only one value of a setting that is given twice. Our class paths would replace those
//! of the user or of the site, or be replaced by them, and executors without the jar die at their
//! start. So the class paths are taken out of the command line, joined, and given once.

use std::collections::BTreeMap;

/// Options that take no value. All others that begin with a dash take one.
const SWITCHES: [&str; 8] = [
    "--help",
    "-h",
    "--supervise",
    "--usage-error",
    "--verbose",
    "-v",
    "--version",
    "--load-spark-defaults",
];

/// Options of `submit` itself, which spark-submit does not know; only the first may lack a value,
/// and has it after an equals sign.
const OWN: [&str; 3] = ["--pool", "--copies", "--ack"];

const DRIVER: &str = "spark.driver.extraClassPath";
const EXECUTOR: &str = "spark.executor.extraClassPath";

/// The options of spark-submit, and the words that are passed on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The class path of the driver.
    pub(super) driver: Option<String>,
    /// The class path of executors.
    pub(super) executor: Option<String>,
    /// The file of `--properties-file`.
    pub(super) properties_file: Option<String>,
    /// Whether spark-defaults.conf is read beside that file.
    pub(super) loads_defaults: bool,
    /// The master of `--master`.
    pub(super) master: Option<String>,
    /// The settings of `--conf`; the last one of a name counts.
    pub(super) settings: BTreeMap<String, String>,
    /// The application's file.
    pub(super) application: Option<String>,
    /// Options of `submit` itself, with their values.
    pub(super) own: Vec<String>,
    /// Everything except the class paths and the options of `submit`, in its order.
    pub(super) rest: Vec<String>,
}

impl CommandLine {
    /// Reads the options; what follows the application's file belongs to the application.
    pub(super) fn parse(words: &[String]) -> Self {
        let mut line = Self::default();
        // `--driver-class-path` wins over `--conf`, in any order.
        let mut option = None;
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
            let (name, value, count) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value), 1),
                _ if SWITCHES.contains(&word.as_str()) || word == OWN[0] => {
                    (word.as_str(), None, 1)
                }
                _ => (word.as_str(), words.get(at + 1).map(String::as_str), 2),
            };
            let end = words.len().min(at + count);
            match (name, value) {
                ("--properties-file", Some(file)) => line.properties_file = Some(file.to_owned()),
                ("--load-spark-defaults", _) => line.loads_defaults = true,
                ("--master", Some(master)) => line.master = Some(master.to_owned()),
                _ => {}
            }
            let kept = match (name, value) {
                ("--driver-class-path", Some(path)) => {
                    option = Some(path.to_owned());
                    None
                }
                ("--conf" | "-c", Some(setting)) if line.takes(setting) => None,
                _ if OWN.contains(&name) => Some(&mut line.own),
                _ => Some(&mut line.rest),
            };
            if let Some(kept) = kept {
                kept.extend_from_slice(&words[at..end]);
            }
            at = end;
        }
        line.application = words.get(at).cloned();
        line.rest.extend_from_slice(&words[at..]);
        line.driver = option.or(line.driver);
        line
    }

    /// Whether a setting is a class path, which is then kept.
    fn takes(&mut self, setting: &str) -> bool {
        let Some((key, value)) = setting.split_once('=') else { return false };
        match key.trim() {
            DRIVER => self.driver = Some(value.to_owned()),
            EXECUTOR => self.executor = Some(value.to_owned()),
            other => {
                self.settings.insert(other.to_owned(), value.to_owned());
                return false;
            }
        }
        true
    }

    /// The two class paths: the jar, then what the command line names, or else the files.
    pub(super) fn class_paths(
        &self,
        jar: &str,
        defaults: &BTreeMap<String, String>,
    ) -> [(&'static str, String); 2] {
        [(DRIVER, &self.driver), (EXECUTOR, &self.executor)].map(|(key, typed)| {
            let theirs = typed.as_ref().or_else(|| defaults.get(key));
            (key, joined(jar, theirs.map_or("", |path| path.trim())))
        })
    }
}

/// The jar comes first: another copy of it on the path of a site would be of another version.
fn joined(jar: &str, theirs: &str) -> String {
    let mut entries = vec![jar];
    entries.extend(theirs.split(':').filter(|entry| !entry.is_empty() && *entry != jar));
    entries.join(":")
}

/// The settings of a file as Java reads properties: comments, three kinds of separators, escapes,
/// and lines that go on after a backslash.
pub(super) fn properties(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while goes_on(&line) {
            line.pop();
            match lines.next() {
                Some(next) => line.push_str(next.trim_start()),
                None => break,
            }
        }
        let (key, value) = entry(&line);
        found.insert(key, value.trim().to_owned());
    }
    found
}

/// Whether an odd number of backslashes ends the line.
fn goes_on(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

fn entry(line: &str) -> (String, String) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let separates = !escaped && (c == '=' || c == ':' || c.is_ascii_whitespace());
        escaped = c == '\\' && !escaped;
        separates
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start();
    (unescaped(key), unescaped(value))
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                out.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// The class paths that Spark gets, and the rest of the command line.
    fn given(line: &str, defaults: &str) -> (String, String, String) {
        let parsed = CommandLine::parse(&words(line));
        let [driver, executor] = parsed.class_paths("/p.jar", &properties(defaults));
        (driver.1, executor.1, parsed.rest.join(" "))
    }

    /// A class path of the user's replaced ours, so executors died and were restarted forever;
    /// ours replaced that of the site.
    #[test]
    fn class_paths_of_the_user_and_of_the_site_are_joined_with_ours() {
        let site = "spark.executor.extraClassPath /site/*\nspark.driver.extraClassPath=/site/d";
        for (line, defaults, driver, executor, rest) in [
            ("app.py", "", "/p.jar", "/p.jar", "app.py"),
            ("app.py", site, "/p.jar:/site/d", "/p.jar:/site/*", "app.py"),
            (
                "--conf spark.executor.extraClassPath=x --master local app.py 1",
                site,
                "/p.jar:/site/d",
                "/p.jar:x",
                "--master local app.py 1",
            ),
            (
                "--driver-class-path a:b -c spark.driver.extraClassPath=c app.py",
                "",
                "/p.jar:a:b",
                "/p.jar",
                "app.py",
            ),
            (
                "--driver-class-path=a --conf=spark.executor.extraClassPath=/p.jar:e app.py",
                "",
                "/p.jar:a",
                "/p.jar:e",
                "app.py",
            ),
            (
                "-c spark.executor.extraClassPath=a -c spark.executor.extraClassPath=b app.py",
                "",
                "/p.jar",
                "/p.jar:b",
                "app.py",
            ),
        ] {
            let wanted = (driver.to_owned(), executor.to_owned(), rest.to_owned());
            assert_eq!(given(line, defaults), wanted, "{line}");
        }
    }

    #[test]
    fn arguments_of_the_application_are_its_own() {
        let line = "--verbose app.py --driver-class-path a --conf spark.driver.extraClassPath=b";
        assert_eq!(given(line, ""), ("/p.jar".into(), "/p.jar".into(), line.into()));
        let cut = "--master local --driver-class-path";
        assert_eq!(given(cut, "").2, cut, "spark-submit says what is missing");
    }

    /// They stood before those of spark-submit, or were refused by it.
    #[test]
    fn options_of_submit_are_found_among_those_of_spark() {
        let line = "--pool --master spark://h:1 --copies 3 --ack=async --conf a=1 app.py --pool=x";
        let parsed = CommandLine::parse(&words(line));
        assert_eq!(parsed.own, words("--pool --copies 3 --ack=async"));
        assert_eq!(parsed.rest, words("--master spark://h:1 --conf a=1 app.py --pool=x"));
        assert_eq!(parsed.master.as_deref(), Some("spark://h:1"));
        assert_eq!(parsed.settings, BTreeMap::from([("a".to_owned(), "1".to_owned())]));
        assert_eq!(parsed.application.as_deref(), Some("app.py"));
        let parsed = CommandLine::parse(&words("--pool=@x --copies"));
        assert_eq!((parsed.own, parsed.rest), (words("--pool=@x --copies"), Vec::new()));
    }

    #[test]
    fn files_are_found_in_the_options() {
        let line = CommandLine::parse(&words("--properties-file f --load-spark-defaults app.py"));
        assert_eq!((line.properties_file.as_deref(), line.loads_defaults), (Some("f"), true));
        let line = CommandLine::parse(&words("app.py --properties-file f"));
        assert_eq!((line.properties_file, line.loads_defaults), (None, false));
    }

    #[test]
    fn properties_are_read_as_java_reads_them() {
        let text = [
            "# no = one\n! no = two\n\n a.b  x y \nc=d=e\nf:g\nh\n",
            "i = /1:\\\n   /2\nj\\:k l\\\\\nm \\u0041\\t.\nc=again\nlast \\",
        ];
        let found = properties(&text.concat());
        let wanted = [
            ("a.b", "x y"),
            ("c", "again"),
            ("f", "g"),
            ("h", ""),
            ("i", "/1:/2"),
            ("j:k", "l\\"),
            ("last", ""),
            ("m", "A\t."),
        ];
        let wanted = wanted.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(found, BTreeMap::from(wanted));
    }
}
