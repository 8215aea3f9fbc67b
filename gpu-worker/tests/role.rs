//! The role on a real broker with the CPU device: it says what it is, obeys a seal, and leaves
//! when asked.

use std::time::Duration;

use broker::testing::TestBroker;
use bus_schemas::{Incarnation, LeaderId, Seal, SealReply, WIRE_VERSION, WorkerBeat};
use bus_schemas::{decode, encode};
use futures_util::StreamExt;
use gpu_worker::{DeviceChoice, DeviceSettings, WorkerSettings};
use tokio::sync::oneshot;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_cpu_worker_serves_until_it_is_asked_to_leave() {
    let broker = TestBroker::start();
    let credentials = broker.credentials().clone();
    let subjects = credentials.subjects().unwrap();
    let cluster = credentials.cluster_user.clone().unwrap();
    let login = (cluster.user, cluster.password);
    let leader =
        async_nats::ConnectOptions::with_user_and_password(login.0.clone(), login.1.clone())
            .custom_inbox_prefix(subjects.cluster_inbox())
            .connect(broker.url())
            .await
            .unwrap();
    let worker = Incarnation(7);
    let mut beats = leader
        .subscribe(subjects.worker_beat(worker))
        .await
        .unwrap();
    leader.flush().await.unwrap();
    let mut settings = WorkerSettings::new(broker.url(), subjects.cluster().clone(), 3);
    settings.bus.login = Some(login);
    settings.bus.patience = Some(PATIENCE);
    settings.incarnation = Some(worker);
    let device = DeviceSettings {
        choice: DeviceChoice::Cpu,
        capacity: Some(1 << 30),
        reserve: Some(1 << 20),
        ..DeviceSettings::default()
    };
    let (shutdown, asked) = oneshot::channel::<()>();
    let role = std::thread::spawn(move || {
        gpu_worker::run(settings, device, async {
            let _ = asked.await;
        })
    });
    let beat = tokio::time::timeout(PATIENCE, beats.next())
        .await
        .unwrap()
        .unwrap();
    let beat: WorkerBeat = decode(&beat.payload).unwrap();
    assert_eq!((beat.gpu, beat.epoch), (3, 0));
    assert_eq!(beat.capacity, (1 << 30) - (1 << 20));
    assert!(beat.device.contains("cpu"), "{}", beat.device);
    let seal = Seal {
        v: WIRE_VERSION,
        epoch: 4,
        leader: LeaderId(4),
        after: None,
    };
    let reply = leader
        .request(subjects.seal(worker), encode(&seal).into())
        .await
        .unwrap();
    let reply: SealReply = decode(&reply.payload).unwrap();
    assert_eq!(reply.sealed.unwrap().position, 0);
    shutdown.send(()).unwrap();
    let left = tokio::task::spawn_blocking(|| role.join().unwrap());
    tokio::time::timeout(PATIENCE, left)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[test]
fn a_gpu_that_must_be_there_and_is_not_is_an_error() {
    if device_cuda::is_present() {
        eprintln!("SKIPPED: this host has a CUDA driver, so a GPU may well be there");
        return;
    }
    let mut settings = WorkerSettings::new("nats://127.0.0.1:1", "lab".parse().unwrap(), 0);
    settings.bus.patience = Some(Duration::from_millis(10));
    let device = DeviceSettings {
        choice: DeviceChoice::Cuda,
        ..DeviceSettings::default()
    };
    let error = gpu_worker::run(settings, device, std::future::pending()).unwrap_err();
    assert!(error.to_string().contains("no CUDA driver"), "{error}");
}
