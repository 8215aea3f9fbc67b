//! Looking after the disks of the broker's servers: what is wrong is said where `status` reads it,
//! and a server that refuses to store is started again once its disk can be written.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use broker::{Server, StoreLook, StoreWatch};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::LocalCluster;
use super::supervision::broker_name;
use crate::admin::Administrator;

/// Looks in a row that found a disk sound before its server is started again.
const SOUND: u64 = 2;
/// How long a server may take to stop before it is killed.
const STOP: Duration = Duration::from_secs(5);
/// Between the restarts of two servers: the copies of the first are equal to the others' again.
const APART: Duration = Duration::from_secs(15);
/// How often it is said what is wrong, and how long each saying holds.
const SAY: Duration = Duration::from_secs(2);
const HOLDS: &str = "8s";
/// Where it is said for those whom no broker answers.
const NAME: &str = "broker-fault";

/// What is to be done about a server's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// Something is wrong that was not, or something else.
    Wrong(String),
    /// The disk can be written, and the server is to be started again.
    Over,
}

/// What is known of the disk of one server: a function of what the looks at it found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Health {
    last: u64,
    wrong: Option<String>,
    /// The server refuses what is to be stored, or may.
    tainted: bool,
    sound: u64,
}

impl Health {
    /// Takes in a look; one that was taken in already changes nothing.
    fn looked(&mut self, look: &StoreLook) -> Option<Change> {
        let silent = look.number == self.last && look.fault.is_some();
        if look.number == self.last && !silent {
            return None;
        }
        self.last = look.number;
        self.tainted |= look.broken;
        if let Some(fault) = &look.fault {
            (self.tainted, self.sound) = (true, 0);
            let wrong = fault.to_string();
            let news = self.wrong.as_ref() != Some(&wrong);
            self.wrong = Some(wrong.clone());
            return news.then_some(Change::Wrong(wrong));
        }
        self.sound += 1;
        (self.tainted && self.sound >= SOUND).then_some(Change::Over)
    }
}

/// One server's disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    watch: Option<StoreWatch>,
    health: Health,
    /// When its server was asked to stop.
    asked: Option<Instant>,
}

impl Disk {
    /// A process that was started again is watched anew; what its disk is like is still so.
    fn watch(&mut self, server: &Server) -> Option<StoreLook> {
        if self
            .watch
            .as_ref()
            .is_none_or(|it| it.pid() != server.pid())
        {
            self.watch = StoreWatch::start(server).ok();
            self.asked = None;
            (self.health.last, self.health.sound) = (0, 0);
            // It has read its disk as it is now.
            self.health.tainted = self.health.wrong.is_some();
        }
        self.watch.as_ref().map(StoreWatch::look)
    }
}

impl LocalCluster {
    /// Looks at the disks of all servers, and starts one again that refuses to store though its
    /// disk can be written.
    pub(super) fn tend_disks(&mut self, said: &mut Vec<String>) {
        for index in 0..self.broker.servers().len() {
            self.tend_disk(index, said);
        }
        let servers = self.options.brokers;
        let wrong = self.disks.iter().enumerate().filter_map(|(index, disk)| {
            let wrong = disk.health.wrong.as_ref()?;
            match servers {
                1 => Some(wrong.clone()),
                _ => Some(format!("{}: {wrong}", broker_name(index, servers))),
            }
        });
        self.announcer.say(wrong.collect::<Vec<_>>().join("; "));
    }

    fn tend_disk(&mut self, index: usize, said: &mut Vec<String>) {
        let name = broker_name(index, self.options.brokers);
        let server = &mut self.broker.servers_mut()[index];
        let disk = &mut self.disks[index];
        let Some(look) = disk.watch(server) else {
            return;
        };
        if let Some(asked) = disk.asked {
            if asked.elapsed() > STOP && server.is_running() {
                // Its watch is new once it has ended and runs again.
                drop(server.kill());
            }
            return;
        }
        match disk.health.looked(&look) {
            Some(Change::Wrong(wrong)) => said.push(format!(
                "{name}: {wrong}; programs run on, and what is to be stored waits"
            )),
            Some(Change::Over) => self.refresh(index, &name, said),
            None => {}
        }
    }

    /// Has a server started again whose disk can be written.
    fn refresh(&mut self, index: usize, name: &str, said: &mut Vec<String>) {
        let now = Instant::now();
        let mut others = self.brokers_started.iter().enumerate();
        if others.any(|(other, started)| other != index && now - *started < APART) {
            return;
        }
        let (server, disk) = (&self.broker.servers()[index], &mut self.disks[index]);
        let running = server.is_running();
        // An error is found again when it is tried again.
        if running && server.ask_to_stop().is_err() {
            return;
        }
        disk.health = Health {
            last: disk.health.last,
            ..Health::default()
        };
        if running {
            disk.asked = Some(now);
            said.push(format!(
                "{name}: its disk can be written; it is started again, for it refuses to store \
                 until then"
            ));
        } else {
            said.push(format!("{name}: its disk can be written"));
            self.restarts
                .entry(name.to_owned())
                .or_default()
                .hasten(now);
        }
    }
}

/// Says what is wrong with the broker's disks: to the leader through the lease's bucket, which is
/// kept in memory, and to those whom no broker answers in the state folder.
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

    /// What is wrong; empty for nothing.
    fn say(&self, wrong: String) {
        let news = self.wrong.send_if_modified(|before| {
            let news = *before != wrong;
            before.clone_from(&wrong);
            news
        });
        // The folder may be on the disk that is full: then the leader alone knows.
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

/// What the processes of a cluster on a state folder say is wrong with the broker's disk.
#[must_use]
pub fn disk_fault(state_dir: &Path) -> Option<String> {
    let wrong = std::fs::read_to_string(state_dir.join(NAME)).ok()?;
    (!wrong.is_empty()).then_some(wrong)
}

/// Says it again and again: what is said expires, as whoever says it may die.
async fn announce(administrator: Administrator, mut heard: watch::Receiver<String>) {
    let bucket = administrator.subjects().lease_bucket();
    let subject = format!("$KV.{bucket}.{}", actors::storage::FAULT);
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
        // Where it cannot be said it is said again.
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

    use broker::StoreFault;

    use super::*;

    fn look(number: u64, fault: Option<StoreFault>, broken: bool) -> StoreLook {
        StoreLook {
            number,
            fault,
            broken,
        }
    }

    fn full() -> Option<StoreFault> {
        Some(StoreFault::Full(PathBuf::from("/store")))
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
    fn a_disk_that_does_not_answer_is_noticed_without_another_look() {
        let mut health = Health::default();
        assert_eq!(health.looked(&look(7, None, false)), None);
        let silent = Some(StoreFault::Silent(PathBuf::from("/store")));
        let said = health.looked(&look(7, silent, false));
        assert!(matches!(said, Some(Change::Wrong(_))), "{said:?}");
    }
}
