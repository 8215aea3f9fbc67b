//! The disks of the broker's servers: their faults, and the place where these are published for
//! `status`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use admin::Administrator;
use async_nats::HeaderMap;
use broker::{Server, StoreFault, StoreLook, StoreWatch};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Consecutive checks that must find a disk sound before its server is restarted.
const SOUND: u64 = 2;
/// Interval at which the fault is published, and the lifetime of each publication.
const SAY: Duration = Duration::from_secs(2);
const HOLDS: &str = "8s";
/// The file with the fault, for commands that no broker answers.
const NAME: &str = "broker-fault";

/// The action that a server's disk needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// There is a new fault, or a different one.
    Wrong(String),
    /// The disk has room again, and the server refused no writes in the meantime.
    Roomy,
    /// The disk is writable, and the server must be restarted.
    Over,
}

/// The state of one server's disk: a function of the checks of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Health {
    last: u64,
    pub(super) wrong: Option<String>,
    /// True if the server refuses writes, or may.
    tainted: bool,
    sound: u64,
}

impl Health {
    /// Resets the state, except for the number of the last check.
    pub(super) fn begin_anew(&mut self) {
        *self = Self {
            last: self.last,
            ..Self::default()
        };
    }

    /// Takes in the result of a check; one that is already known changes nothing.
    pub(super) fn looked(&mut self, look: &StoreLook) -> Option<Change> {
        let silent = look.number == self.last && look.fault.is_some();
        if look.number == self.last && !silent {
            return None;
        }
        self.last = look.number;
        self.tainted |= look.broken;
        if let Some(fault) = &look.fault {
            // A server with little room still stores what fits.
            self.tainted |= !matches!(fault, StoreFault::Little(..));
            self.sound = 0;
            let wrong = fault.to_string();
            let news = self.wrong.as_ref() != Some(&wrong);
            self.wrong = Some(wrong.clone());
            return news.then_some(Change::Wrong(wrong));
        }
        self.sound += 1;
        if self.tainted {
            return (self.sound >= SOUND).then_some(Change::Over);
        }
        self.wrong.take().map(|_| Change::Roomy)
    }
}

/// One server's disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    watch: Option<StoreWatch>,
    pub(super) health: Health,
    /// Time at which its server was asked to stop.
    pub(super) asked: Option<Instant>,
    /// Number of the check after which its server was told of more room.
    told: u64,
}

impl Disk {
    /// True if the server must be told of the room that this check found: once for each check.
    pub(super) fn takes_room(&mut self, look: u64) -> bool {
        std::mem::replace(&mut self.told, look) != look
    }

    /// Watches the disk; a restarted process gets a new watch. The fault stays, as the disk has not
    /// changed.
    pub(super) fn watch(&mut self, server: &Server) -> Option<StoreLook> {
        if self
            .watch
            .as_ref()
            .is_none_or(|it| it.pid() != server.pid())
        {
            self.watch = StoreWatch::start(server).ok();
            self.asked = None;
            (self.health.last, self.health.sound) = (0, 0);
            // The new process has read the current state of its disk.
            self.health.tainted = self.health.wrong.is_some();
        }
        self.watch.as_ref().map(StoreWatch::look)
    }
}

/// Publishes the fault of the broker's disks. The leader gets it through the lease's bucket, which
/// is kept in memory. Commands without a broker find it in the state folder.
#[derive(Debug)]
pub(super) struct Announcer {
    wrong: watch::Sender<String>,
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Announcer {
    pub(super) fn start(administrator: Administrator, state_dir: &Path) -> Self {
        let (wrong, heard) = watch::channel(String::new());
        let path = state_dir.join(NAME);
        drop(std::fs::remove_file(&path));
        Self {
            wrong,
            path,
            task: tokio::spawn(announce(administrator, heard)),
        }
    }

    /// Sets the fault; empty for none.
    pub(super) fn say(&self, wrong: String) {
        let news = self.wrong.send_if_modified(|before| {
            let news = *before != wrong;
            before.clone_from(&wrong);
            news
        });
        // The folder may be on the full disk; then only the leader knows.
        match (news, wrong.is_empty()) {
            (true, true) => drop(std::fs::remove_file(&self.path)),
            (true, false) => drop(std::fs::write(&self.path, wrong)),
            (false, _) => {}
        }
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.path));
    }
}

/// The fault of the broker's disk, as published by the cluster on a state folder.
#[must_use]
pub fn disk_fault(state_dir: &Path) -> Option<String> {
    let wrong = std::fs::read_to_string(state_dir.join(NAME)).ok()?;
    (!wrong.is_empty()).then_some(wrong)
}

/// Publishes the fault repeatedly. It expires, because the publishing process may die.
async fn announce(administrator: Administrator, mut heard: watch::Receiver<String>) {
    let bucket = administrator.subjects().lease_bucket();
    let subject = format!("$KV.{bucket}.{}", storage::FAULT);
    loop {
        let wrong = heard.borrow_and_update().clone();
        if wrong.is_empty() {
            if heard.changed().await.is_err() {
                return;
            }
            continue;
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-TTL", HOLDS);
        let client = administrator.client();
        // If publishing fails, it is repeated later.
        drop(
            client
                .publish_with_headers(subject.clone(), headers, wrong.into())
                .await,
        );
        drop(tokio::time::timeout(SAY, heard.changed()).await);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use storage::Stored;

    use super::*;

    fn look(number: u64, fault: Option<StoreFault>, broken: bool) -> StoreLook {
        StoreLook {
            number,
            fault,
            broken,
            roomier: false,
        }
    }

    fn full() -> Option<StoreFault> {
        Some(StoreFault::Full(PathBuf::from("/store")))
    }

    /// The broker's crate does not know the table of stored data.
    #[test]
    fn room_for_all_that_is_kept_is_room_for_each() {
        let all: u64 = Stored::ALL.iter().map(|it| it.least_bytes()).sum();
        assert_eq!(broker::LEAST_STORE, all);
        let record = Stored::Record.least_bytes();
        assert_eq!(broker::LEAST_STORE_TO_START, all - record);
    }

    #[test]
    fn a_sound_disk_is_left_alone() {
        let mut health = Health::default();
        for number in 0..100 {
            assert_eq!(health.looked(&look(number, None, false)), None);
        }
    }

    #[test]
    fn what_is_wrong_is_said_once_and_ends_with_a_restart() {
        let mut health = Health::default();
        let said = health.looked(&look(1, full(), false));
        assert!(matches!(said, Some(Change::Wrong(_))), "{said:?}");
        assert_eq!(health.looked(&look(2, full(), true)), None);
        assert_eq!(health.looked(&look(3, None, true)), None);
        assert_eq!(health.looked(&look(3, None, true)), None, "the same look");
        assert_eq!(health.looked(&look(4, full(), true)), None, "full again");
        assert_eq!(health.looked(&look(5, None, true)), None);
        assert_eq!(health.looked(&look(6, None, true)), Some(Change::Over));
    }

    #[test]
    fn a_server_that_is_broken_on_a_sound_disk_is_started_again() {
        let mut health = Health::default();
        assert_eq!(health.looked(&look(1, None, true)), None);
        assert_eq!(health.looked(&look(2, None, true)), Some(Change::Over));
    }

    #[test]
    fn little_room_is_said_and_ends_without_a_restart() {
        let little = || Some(StoreFault::Little(PathBuf::from("/store"), 1 << 20));
        let mut health = Health::default();
        let said = health.looked(&look(1, little(), false));
        assert!(matches!(said, Some(Change::Wrong(_))), "{said:?}");
        assert_eq!(health.looked(&look(2, little(), false)), None);
        assert_eq!(health.looked(&look(3, None, false)), Some(Change::Roomy));
        assert_eq!(health.looked(&look(4, None, false)), None);
        // A disk that filled up in the meantime has refused writes.
        health.looked(&look(5, little(), false));
        health.looked(&look(6, full(), false));
        assert_eq!(health.looked(&look(7, little(), false)).map(drop), Some(()));
        assert_eq!(health.looked(&look(8, None, false)), None);
        assert_eq!(health.looked(&look(9, None, false)), Some(Change::Over));
    }

    #[test]
    fn a_disk_that_does_not_answer_is_noticed_without_another_look() {
        let mut health = Health::default();
        assert_eq!(health.looked(&look(7, None, false)), None);
        let silent = Some(StoreFault::Silent(PathBuf::from("/store")));
        let said = health.looked(&look(7, silent, false));
        assert!(matches!(said, Some(Change::Wrong(_))), "{said:?}");
    }
}
