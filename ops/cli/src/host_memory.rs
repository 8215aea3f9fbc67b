//! Host memory that a process may use: the machine's, or less if its control group is limited.

use std::fs;
use std::path::Path;

/// Maximum bytes of unused copies that are kept, if the setting has no value.
const COPIES: u64 = 1 << 30;
/// Divisor: unused copies take at most this fraction of the host's memory.
const PART: u64 = 32;

/// Bytes of copies without a session that a worker keeps, if the setting has no value.
#[must_use]
pub(crate) fn for_copies() -> u64 {
    bytes(Path::new("/")).map_or(COPIES, |all| COPIES.min(all / PART))
}

/// Bytes of memory that this process may use, from Linux's files below `root`; `None` if they do
/// not say.
fn bytes(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo").as_deref().and_then(in_meminfo);
    let own = read("proc/self/cgroup")
        .as_deref()
        .and_then(group)
        .unwrap_or_default();
    // A group has no more than the groups that contain it.
    let groups = Path::new(&own).ancestors().filter_map(|group| {
        let limit = Path::new("sys/fs/cgroup").join(group).join("memory.max");
        read(limit.to_str()?)?.trim().parse().ok()
    });
    groups.chain(machine).min()
}

/// Total memory of the machine, in bytes.
fn in_meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The process's group, in the one hierarchy of version 2.
fn group(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(limits: &[(&str, &str)]) -> Option<u64> {
        let root = test_cluster::TempDir::new().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        };
        put(
            "proc/meminfo",
            "MemTotal:       16384 kB\nMemFree:         1 kB\n",
        );
        put("proc/self/cgroup", "1:name=systemd:/other\n0::/pods/one\n");
        for (group, limit) in limits {
            put(&format!("sys/fs/cgroup/{group}memory.max"), limit);
        }
        bytes(root.path())
    }

    #[test]
    fn a_process_has_what_its_machine_and_its_groups_have() {
        assert_eq!(host(&[]), Some(16 << 20));
        assert_eq!(
            host(&[("pods/one/", "max\n"), ("", "max\n")]),
            Some(16 << 20)
        );
        assert_eq!(host(&[("pods/one/", "1048576\n")]), Some(1 << 20));
        assert_eq!(
            host(&[("pods/one/", "max\n"), ("pods/", "2097152\n")]),
            Some(2 << 20)
        );
        assert_eq!(host(&[("pods/two/", "4096\n")]), Some(16 << 20));
        assert_eq!(bytes(Path::new("/nowhere")), None);
    }

    #[test]
    fn copies_take_a_part_of_it() {
        assert!((1 << 20..=COPIES).contains(&for_copies()));
    }
}
