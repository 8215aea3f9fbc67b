//! Programs that a command may run: `env`, `nice`, `timeout`, a shell or a script may precede the
//! actual program.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum number of words of a command and its scripts that are examined.
const WORDS: usize = 512;
/// Maximum number of bytes of a script that are examined.
const SCRIPT: u64 = 16 << 10;
/// Maximum depth of scripts that name scripts.
const DEPTH: usize = 3;
/// Separators of words in a shell's line, besides white space.
const PARTING: [char; 10] = ['"', '\'', '`', ';', '&', '|', '(', ')', '=', '!'];

/// The files that a command's words name, Pythons first. A word is a path, or is looked up on
/// `PATH`. Words are the command's arguments, their parts as a shell would split them, and those of
/// scripts among the files.
pub(super) fn programs(
    command: &[PathBuf],
    present: &impl Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let path = present("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut words: VecDeque<(PathBuf, usize)> = VecDeque::new();
    for word in command {
        words.push_back((word.clone(), 0));
        let parts = word.to_str().into_iter().flat_map(parts);
        words.extend(parts.filter(|it| it != word).map(|it| (it, 0)));
    }
    let (mut seen, mut files) = (BTreeSet::new(), Vec::new());
    while let Some((word, depth)) = words.pop_front() {
        if seen.len() >= WORDS || !seen.insert(word.clone()) {
            continue;
        }
        let Some(file) = located(&word, &path) else {
            continue;
        };
        if depth < DEPTH
            && let Some(text) = script(&file)
        {
            words.extend(parts(&text).map(|it| (it, depth + 1)));
        }
        files.push(file);
    }
    // A Python has libraries beside it.
    files.sort_by_key(|file| !is_python(file));
    files
}

/// True if a program has the name of a Python.
pub(super) fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("python")
}

/// The words of one or more lines.
fn parts(text: &str) -> impl Iterator<Item = PathBuf> {
    let words = text.split(|c: char| c.is_whitespace() || PARTING.contains(&c));
    words.filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// The file that a word names.
fn located(word: &Path, path: &[PathBuf]) -> Option<PathBuf> {
    if word.components().count() > 1 {
        return word.is_file().then(|| word.to_owned());
    }
    let mut places = path.iter().map(|place| place.join(word));
    places.find(|it| it.is_file())
}

/// The beginning of a script's text; `None` if the file is no script.
fn script(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    let opened = File::open(file).ok()?;
    opened.take(2).read_to_end(&mut text).ok()?;
    if text != b"#!" {
        return None;
    }
    let opened = File::open(file).ok()?;
    text.clear();
    opened.take(SCRIPT).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::jit_link;
    use super::*;

    const NAME: &str = "libnvJitLink.so.12";

    /// The nvJitLink in a Python's own environment is found, regardless of the programs that
    /// precede it.
    #[test]
    fn a_programs_own_library_is_found_behind_what_starts_it() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let at = |name: &str| base.path().join(name);
        let made = |name: &str, text: &str| {
            let file = at(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            fs::write(&file, text).expect("written");
            file.to_str().expect("text").to_owned()
        };
        let library = |environment: &str| {
            format!("{environment}/lib/python3.11/site-packages/nvidia/nvjitlink/lib/{NAME}")
        };
        // Another environment is active, and the wrappers have a library beside them.
        for environment in ["own", "active", "system"] {
            made(&library(environment), "real");
        }
        let python = made("own/bin/python3", "");
        for wrapper in ["env", "nice", "timeout", "bash"] {
            made(&format!("system/bin/{wrapper}"), "");
        }
        let script = made(
            "elsewhere/job.sh",
            &format!("#!/bin/sh\nexec \"{python}\" x.py\n"),
        );
        let entry = made("own/bin/tool", &format!("#!{python}\nimport tool\n"));
        let outer = made(
            "elsewhere/outer.sh",
            &format!("#!/bin/sh\nnice {script} 7\n"),
        );
        let inner = format!("cd / && exec '{python}' x.py");
        let present = |name: &str| match name {
            "PATH" => Some(at("system/bin").into_os_string()),
            "VIRTUAL_ENV" => Some(at("active").into_os_string()),
            _ => None,
        };
        for command in [
            vec![&*python, "x.py"],
            vec!["env", "A=b", &python],
            vec!["nice", "-n", "5", &python, "x.py"],
            vec!["timeout", "9", "env", &python],
            vec!["bash", "-c", &inner],
            vec![&*script],
            vec![&*entry],
            vec!["env", &*outer],
        ] {
            let words: Vec<PathBuf> = command.iter().map(PathBuf::from).collect();
            let programs = programs(&words, &present);
            let found = jit_link::find(NAME, &at("drop-in"), &programs, &present);
            assert_eq!(found, Some(at(&library("own"))), "{command:?}");
        }
    }

    #[test]
    fn scripts_that_name_themselves_and_long_ones_are_read_once_and_not_for_ever() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let file = base.path().join("again.sh");
        let again = format!("{} ", file.display());
        let words: String = (0..100_000).map(|word| format!("w{word} ")).collect();
        fs::write(&file, format!("#!\n{again}{again}{words}")).expect("written");
        let found = programs(std::slice::from_ref(&file), &|_: &str| None);
        assert_eq!(found, [file]);
    }
}
