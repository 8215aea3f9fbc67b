//! Elections on a real nats-server: candidates in their own threads, each with its own connection,
//! are watched from outside.

mod cuts;
mod elections;
mod storage;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_nats::{Client, Subscriber};
use bus_schemas::subject::{Admin, Subjects};
use bus_schemas::{LeaderBeat, LeaderId, Status, StatusRequest, WIRE_VERSION, decode, encode};
use futures_util::StreamExt;
use scheduler_leader::{Events, LeaderSettings};
use test_cluster::TestCluster;
use tokio::sync::oneshot;

/// Maximum time of any wait here.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// A following candidate sends nothing, so there is no event to wait for. After this time it has
/// heard the leader several times. One that has not would campaign later, and the test would still
/// hold.
pub(crate) const HEARD: Duration = Duration::from_millis(400);
/// Longer than the lease's TTL of 2 s: the time itself is tested.
pub(crate) const BEYOND_LEASE: Duration = Duration::from_millis(2_500);

/// One candidate in its own thread.
pub(crate) struct Candidate {
    pub(crate) id: LeaderId,
    pub(crate) stop: Option<oneshot::Sender<bool>>,
    pub(crate) ended: mpsc::Receiver<Result<(), String>>,
    thread: Option<JoinHandle<()>>,
}

impl Candidate {
    /// Starts a candidate. It ends by handing over (`leave`) or, as a killed process does, by
    /// dropping its connection at once (`kill`).
    pub(crate) fn start(cluster: &TestCluster, id: u64, events: bool) -> Candidate {
        let id = LeaderId(id);
        let credentials = cluster.credentials().clone();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut settings =
                LeaderSettings::new(&credentials.url, credentials.cluster.parse().unwrap());
            let login = |login: &broker::Login| (login.user.clone(), login.password.clone());
            settings.bus.login = credentials.cluster_user.as_ref().map(login);
            settings.id = Some(id);
            settings.events = credentials
                .system_user
                .as_ref()
                .filter(|_| events)
                .map(|user| Events {
                    login: login(user),
                    subject: credentials.disconnect_subject(),
                    users: credentials.users().unwrap(),
                });
            let killed = Arc::new(AtomicBool::new(false));
            let system = actix::System::new();
            let result = system.block_on(async {
                let (leave, left) = oneshot::channel::<()>();
                let serve = scheduler_leader::serve_with(settings, async {
                    let _ = left.await;
                });
                let mut leave = Some(leave);
                let mut serve = Box::pin(serve);
                let mut stopped = stopped;
                loop {
                    tokio::select! {
                        result = &mut serve => return result.map_err(|error| format!("{error:#}")),
                        how = &mut stopped, if leave.is_some() => match how {
                            Ok(true) => drop(leave.take()),
                            _ => {
                                killed.store(true, Ordering::SeqCst);
                                return Ok(());
                            }
                        },
                    }
                }
            });
            // The system's tasks and their connections end with it, without another message.
            drop(system);
            let _ = end.send(result);
        });
        Candidate {
            id,
            stop: Some(stop),
            ended,
            thread: Some(thread),
        }
    }

    pub(crate) fn end(&mut self, leave: bool) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(leave);
        }
        let result = self.ended.recv_timeout(TIMEOUT).expect("it ends");
        assert_eq!(result, Ok(()));
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(false);
        }
    }
}

/// A watcher with a login of the cluster.
pub(crate) struct Watcher {
    pub(crate) client: Client,
    pub(crate) subjects: Subjects,
    beats: Subscriber,
}

impl Watcher {
    pub(crate) async fn new(cluster: &TestCluster) -> Watcher {
        let (subjects, client) = (cluster.subjects(), cluster.connect().await);
        let beats = client.subscribe(subjects.leader_beat()).await.unwrap();
        Watcher {
            client,
            subjects,
            beats,
        }
    }

    /// The next heartbeat that satisfies a condition.
    pub(crate) async fn beat(&mut self, what: impl Fn(&LeaderBeat) -> bool) -> LeaderBeat {
        let wait = async {
            loop {
                let message = self.beats.next().await.expect("beats go on");
                let beat: LeaderBeat = decode(&message.payload).unwrap();
                if what(&beat) {
                    return beat;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, wait)
            .await
            .expect("a heartbeat")
    }

    pub(crate) async fn status(&self) -> Status {
        let request = encode(&StatusRequest { v: WIRE_VERSION });
        let subject = self.subjects.admin(Admin::Status);
        let asked = Instant::now();
        loop {
            let answer = self.client.request(subject.clone(), request.clone().into());
            if let Ok(Ok(message)) = tokio::time::timeout(Duration::from_millis(300), answer).await
            {
                return decode(&message.payload).unwrap();
            }
            assert!(asked.elapsed() < TIMEOUT, "a leader answers");
        }
    }
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(test);
}
