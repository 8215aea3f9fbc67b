//! `nvidia-smi` for programs on machines without it: this program, by another name.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::variable::{EnvVariable, joined, set};

/// The name of the tool that shows a machine's devices; under this name this program shows a
/// tenant's.
pub const SMI: &str = "nvidia-smi";
/// Subfolder with the programs that are searched last.
const PROGRAMS: &str = "bin";

/// Creates a link in the drop-in's folder with which this program, at its current path, is found as
/// `nvidia-smi`.
pub(super) fn link(folder: &Path) -> Result<()> {
    let programs = folder.join(PROGRAMS);
    let smi = programs.join(SMI);
    let linked = std::env::current_exe().and_then(|own| {
        if fs::read_link(&smi).is_ok_and(|there| there == own) {
            return Ok(());
        }
        fs::create_dir_all(&programs)?;
        // Another process of ours may be looking it up at this moment.
        let partial = programs.join(format!("{SMI}.{:016x}", bus::random_id()));
        std::os::unix::fs::symlink(own, &partial)?;
        fs::rename(&partial, &smi)
    });
    linked.with_context(|| format!("writing {}", smi.display()))
}

/// The search path with our `nvidia-smi`: last, and only if there is no other.
pub(super) fn path(
    folder: &Path,
    present: &impl Fn(&str) -> Option<OsString>,
) -> Option<EnvVariable> {
    let before = present("PATH").unwrap_or_default();
    let programs = folder.join(PROGRAMS);
    let mut places = std::env::split_paths(&before);
    if places.any(|place| place == programs || place.join(SMI).is_file()) {
        return None;
    }
    let path = joined([before, programs.into_os_string()], ":");
    Some(set("PATH", path, "nvidia-smi shows the tenant's devices"))
}

#[cfg(test)]
mod tests {
    use super::super::without;
    use super::*;

    #[test]
    fn nvidia_smi_is_found_behind_everything_and_only_where_there_is_none() {
        let base = test_cluster::TempDir::new().expect("a folder");
        let told = |before: OsString| {
            let present = |name: &str| (name == "PATH").then(|| before.clone());
            path("/f/x".as_ref(), &present).map(|it| it.value.to_string_lossy().into_owned())
        };
        let there = base.path().as_os_str().to_owned();
        let wanted = format!("{}:/f/x/bin", there.to_string_lossy());
        assert_eq!(told(there.clone()), Some(wanted.clone()));
        assert_eq!(told(wanted.clone().into()), None, "it is there already");
        assert_eq!(without(wanted.as_ref(), "/f/x".as_ref()), there);
        fs::write(base.path().join(SMI), "").expect("written");
        assert_eq!(told(there), None, "the machine has one");
    }
}
