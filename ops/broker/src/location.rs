//! The folder of the tools that Warploom installs.

use std::env;
use std::path::{Path, PathBuf};

/// The directory of installed tools, with one subdirectory per tool and version.
///
/// In order: `setting`; `$CARGO_TARGET_DIR/tools`; `tools` in the cargo target directory that
/// holds the running executable; `target/tools` of the Warploom workspace around the current
/// directory; `$XDG_CACHE_HOME/warploom` (`~/.cache/warploom`).
pub fn tools_dir(setting: Option<&Path>) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    setting
        .map(Path::to_owned)
        .or_else(|| target.map(absolute).map(|dir| dir.join("tools")))
        .or_else(|| target_around(&env::current_exe().ok()?).map(|dir| dir.join("tools")))
        .or_else(|| workspace_around(&env::current_dir().ok()?).map(|dir| dir.join("target/tools")))
        .unwrap_or_else(cache_dir)
}

/// Cargo marks its target directories with a `CACHEDIR.TAG`. Other tools use the same tag, so the
/// name is checked too.
fn target_around(executable: &Path) -> Option<PathBuf> {
    let is_target = |dir: &&Path| {
        dir.join("CACHEDIR.TAG").is_file()
            && (dir.join(".rustc_info.json").is_file() || dir.ends_with("target"))
    };
    executable
        .ancestors()
        .skip(1)
        .find(is_target)
        .map(Path::to_owned)
}

fn workspace_around(dir: &Path) -> Option<PathBuf> {
    dir.ancestors()
        .find(|dir| dir.join("ops/broker/Cargo.toml").is_file())
        .map(Path::to_owned)
}

fn cache_dir() -> PathBuf {
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .unwrap_or_else(env::temp_dir)
        .join("warploom")
}

fn absolute(dir: PathBuf) -> PathBuf {
    std::path::absolute(&dir).unwrap_or(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_comes_first() {
        assert_eq!(
            tools_dir(Some(Path::new("/opt/tools"))),
            Path::new("/opt/tools")
        );
    }

    #[test]
    fn a_test_executable_lies_in_a_target_directory() {
        let target = target_around(&env::current_exe().unwrap()).unwrap();
        assert!(target.join("CACHEDIR.TAG").is_file());
        assert!(target_around(Path::new("/usr/bin/warploom")).is_none());
    }

    #[test]
    fn the_workspace_is_found_from_below() {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = workspace_around(&crate_dir.join("src")).unwrap();
        assert!(root.join("Cargo.lock").is_file());
        assert!(workspace_around(Path::new("/usr")).is_none());
    }
}
