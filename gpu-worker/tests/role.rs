//! The role on a real broker with the CPU device: it reports its properties, obeys a seal, and leaves when
//! asked.

use std::time::Duration;

use bus_schemas::{Incarnation, LeaderId, Seal, SealReply, WIRE_VERSION, WorkerBeat};
use bus_schemas::{decode, encode};
use futures_util::StreamExt;
use gpu_worker::{DeviceChoice, DeviceSettings, WorkerSettings};
use test_cluster::{RoleThread, TestCluster};

const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_cpu_worker_serves_until_it_is_asked_to_leave() {
    let cluster = TestCluster::start();
    let subjects = cluster.subjects();
    let leader = cluster.connect().await;
    let worker = Incarnation(7);
    let mut beats = leader
        .subscribe(subjects.worker_beat(worker))
        .await
        .unwrap();
    leader.flush().await.unwrap();
    let mut settings = WorkerSettings::new(cluster.url(), subjects.cluster().clone(), 3);
    settings.bus.login = Some(cluster.cluster_login());
    settings.bus.patience = Some(TIMEOUT);
    settings.incarnation = Some(worker);
    let device = DeviceSettings {
        choice: DeviceChoice::Cpu,
        capacity: Some(1 << 30),
        reserve: Some(1 << 20),
        ..DeviceSettings::default()
    };
    let mut role = RoleThread::start(|asked| gpu_worker::run(settings, device, asked));
    let beat = tokio::time::timeout(TIMEOUT, beats.next())
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
        times: false,
    };
    let reply = leader
        .request(subjects.seal(worker), encode(&seal).into())
        .await
        .unwrap();
    let reply: SealReply = decode(&reply.payload).unwrap();
    assert_eq!(reply.sealed.unwrap().position, 0);
    role.ask();
    role.left(TIMEOUT).await.unwrap();
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
