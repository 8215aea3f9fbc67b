//! Lists the files of the web page and embeds them into the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Kinds of files that are served; others (licences, notes) are not.
const KINDS: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=page");
    let folder = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let folder = folder.join("page");
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    let mut list = String::from("const ASSETS: &[Asset] = &[\n");
    for file in files {
        let extension = file.extension().and_then(|it| it.to_str());
        let kind = KINDS.iter().find(|(known, _)| Some(*known) == extension);
        let Some((_, kind)) = kind else {
            continue;
        };
        let inside = file.strip_prefix(&folder).map_err(io::Error::other)?;
        let path = match inside.to_str() {
            Some("index.html") => "/".to_owned(),
            Some(path) => format!("/{path}"),
            None => continue,
        };
        // Relative to the package, so that a checkout can be moved together with its target folder.
        let within = format!("/page/{}", inside.display());
        writeln!(
            list,
            "Asset {{ path: {path:?}, kind: {kind:?}, \
             bytes: include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {within:?})) }},"
        )
        .map_err(io::Error::other)?;
    }
    list += "];\n";
    writeln!(list, "const KINDS: &[(&str, &str)] = &{KINDS:?};").map_err(io::Error::other)?;
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(out.join("assets.rs"), list)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
