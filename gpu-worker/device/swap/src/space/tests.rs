//! Stored bytes are there, the limits hold, and nothing stays behind.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::config::SwapFile;

/// A directory of its own, removed with this value.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warploom-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn file(&self, bytes: u64) -> Option<SwapFile> {
        let dir = self.0.clone();
        Some(SwapFile { dir, bytes })
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn space(memory: u64, file: Option<SwapFile>) -> Arc<SwapSpace> {
    let made = SwapSpace::new(&SwapConfig { memory, file });
    Arc::new(made.expect("the host has it").expect("it has room"))
}

/// Bytes that the host has for a file.
fn taken(file: &Option<File>) -> u64 {
    let file = file.as_ref().expect("a file");
    file.metadata().expect("of a file").blocks() * 512
}

/// Bytes that the host has for the part in memory.
fn in_memory(space: &SwapSpace) -> u64 {
    space.memory.as_ref().expect("it has memory").taken()
}

fn read(stored: &SwappedBytes) -> Vec<u8> {
    let (mut bytes, mut spare) = (Vec::new(), vec![1; 3]);
    let each = |at: usize, part: &[u8]| {
        assert_eq!(at, bytes.len());
        bytes.extend_from_slice(part);
        Ok(())
    };
    stored.read(&mut spare, each).expect("stored");
    bytes
}

#[test]
fn memory_is_first_and_goes_back_to_the_host() {
    let dir = Dir::new("tiers");
    let space = space(4 * GRAIN, dir.file(2 * GRAIN));
    let piece = |of: u8, grains: u64| vec![of; (grains * GRAIN) as usize];
    let a = space.put(&piece(1, 3)).expect("room");
    assert_eq!(in_memory(&space), 3 * GRAIN);
    let b = space.put(&piece(2, 2)).expect("room");
    let used = |memory, file| SwapUse {
        memory: (memory * GRAIN, 4 * GRAIN),
        file: (file * GRAIN, 2 * GRAIN),
        moving: (0, 0),
    };
    assert_eq!(space.used(), used(4, 1), "a piece may lie in both");
    let failure = space.put(&piece(3, 2)).expect_err("one grain is left");
    assert_eq!(failure.code, Code::OutOfMemory);
    assert!(
        failure.detail.contains("no room for 8192 bytes"),
        "{failure}"
    );
    assert_eq!((space.used(), space.left()), (used(4, 1), GRAIN));
    assert!(read(&a) == piece(1, 3) && read(&b) == piece(2, 2));
    drop(a);
    assert_eq!((space.used(), in_memory(&space)), (used(1, 1), 4 * GRAIN));
    assert!(space.has_slack(), "what comes next finds its pages");
    space.trim(|| true);
    assert_eq!((in_memory(&space), space.has_slack()), (GRAIN, false));
    assert!(read(&b) == piece(2, 2));
    drop(b);
    space.trim(|| true);
    assert_eq!((space.used(), in_memory(&space)), (used(0, 0), 0));
}

#[test]
fn the_file_has_its_room_and_no_name() {
    let dir = Dir::new("reserved");
    let space = space(0, dir.file(8 << 20));
    assert!(taken(&space.disk) >= 8 << 20, "all of it is reserved");
    let of = space.disk.as_ref().expect("a file").metadata();
    assert_eq!(of.expect("of a file").mode() & 0o7777, 0o600);
    let names = std::fs::read_dir(&dir.0).expect("the directory").count();
    assert_eq!(names, 0, "nothing is left when the process dies");
    let bytes = vec![9; 8 << 20];
    let stored = space.put(&bytes).expect("room");
    assert!(read(&stored) == bytes && taken(&space.disk) < 9 << 20);
    // The next owner does not see the old bytes.
    drop(stored);
    let stored = space.put(&[3; 10]).expect("room");
    assert_eq!(read(&stored), [3; 10]);
}

#[test]
fn a_directory_without_room_is_refused_and_named() {
    let dir = Dir::new("refused");
    let refused = |file| {
        let config = SwapConfig { memory: 0, file };
        SwapSpace::new(&config).expect_err("no such room").detail
    };
    let detail = refused(dir.file(1 << 44));
    let place = dir.0.to_str().expect("text");
    assert!(
        detail.contains("17592186044416 bytes") && detail.contains(place),
        "{detail}"
    );
    assert!(detail.contains("free as much there"), "{detail}");
    assert_eq!(std::fs::read_dir(&dir.0).expect("there").count(), 0);
    let detail = refused(Some(SwapFile {
        dir: dir.0.join("none"),
        bytes: 4096,
    }));
    assert!(
        detail.contains("none") && detail.contains("may make files"),
        "{detail}"
    );
    // In the kernel's own file system no file can be made, nor bytes reserved.
    let detail = refused(Some(SwapFile {
        dir: "/proc".into(),
        bytes: 4096,
    }));
    assert!(detail.contains("/proc"), "{detail}");
    let nothing = SwapSpace::new(&SwapConfig {
        memory: 4095,
        file: None,
    });
    assert!(nothing.expect("nothing is asked for").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Pieces of all sizes come and go.
    #[test]
    fn what_is_stored_is_there_and_no_limit_is_exceeded(
        (memory, file) in (0..200_u64, 1..24_u64),
        steps in prop::collection::vec((any::<bool>(), 0..300_000_usize, any::<u8>()), 1..60),
    ) {
        let dir = Dir::new("random");
        let space = space(memory * GRAIN, dir.file(file * GRAIN));
        let mut model: Vec<(Vec<u8>, SwappedBytes)> = Vec::new();
        for (put, len, of) in steps {
            if put {
                let bytes: Vec<u8> = (0..len).map(|at| of.wrapping_add((at / 7) as u8)).collect();
                let fits = (len as u64).next_multiple_of(GRAIN) <= space.left();
                match space.put(&bytes) {
                    Ok(stored) => model.push((bytes, stored)),
                    Err(_) => prop_assert!(!fits),
                }
            } else if !model.is_empty() {
                drop(model.swap_remove(len % model.len()));
                if of % 4 == 0 {
                    space.trim(|| true);
                }
            }
            let held = model.iter().map(|(bytes, _)| (bytes.len() as u64).next_multiple_of(GRAIN));
            let used = space.used();
            prop_assert_eq!(used.memory.0 + used.file.0, held.sum::<u64>());
            prop_assert!(used.memory.0 <= memory * GRAIN && used.file.0 <= file * GRAIN);
            if memory > 0 {
                let there = in_memory(&space);
                prop_assert!(used.memory.0 <= there && there <= memory * GRAIN);
            }
            for (bytes, stored) in &model {
                prop_assert!(read(stored) == *bytes);
            }
        }
        drop(model);
        prop_assert_eq!(space.left(), (memory + file) * GRAIN);
        space.trim(|| true);
        prop_assert!(memory == 0 || in_memory(&space) == 0);
    }
}
