//! Equal weights of two tenants' programs are stored once in a worker's memory. Each tenant pays
//! half, and neither sees the other's changes.

use std::time::{Duration, Instant};

use bus_schemas::{Usage, UsageRow};
use client_agent::{Client, Session, Settings};

use crate::copies::cluster;
use crate::loaded::LoadedCluster;
use crate::usage::{number, table};

const TIMEOUT: Duration = Duration::from_secs(30);
const BYTES: usize = 8 << 20;
/// `c = a + b`.
const ADD: &str = include_str!("../kernels/vector_add.ptx");

/// Floats without two equal pages.
fn weights() -> Vec<u8> {
    let floats = (0..BYTES / 4).map(|i| (i % 100_003) as f32);
    floats.flat_map(f32::to_le_bytes).collect()
}

/// A program with its weights in place.
struct Program {
    session: Session,
    data: u64,
    // The session's connection.
    _client: Client,
}

impl Program {
    fn start(settings: Settings) -> Self {
        let client = Client::connect(settings).expect("a broker");
        let session = client.open().expect("a session");
        let data = session.alloc(BYTES as u64).expect("memory");
        session.copy_in(data, &weights()).expect("copied");
        session.sync().expect("it is there");
        Self {
            session,
            data,
            _client: client,
        }
    }

    /// Adds the weights to themselves, in place.
    fn double(&self) {
        let module = self.session.load(ADD.as_bytes()).expect("a module");
        let add = module.function("vector_add").expect("a kernel");
        let floats = (BYTES / 4) as u32;
        let mut params = Vec::new();
        for _ in 0..3 {
            params.extend(self.data.to_le_bytes());
        }
        params.extend(floats.to_le_bytes());
        let (grid, block) = ([floats.div_ceil(256), 1, 1], [256, 1, 1]);
        let launched = self.session.launch(&add, grid, block, 0, &params);
        launched.expect("a launch");
        self.session.sync().expect("it ran");
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let copied = self.session.copy_out(self.data, &mut bytes);
        copied.expect("copied back");
        bytes
    }
}

/// Runs blocking work beside the test's own tasks.
async fn beside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(act).await.expect("it ends")
}

async fn start(loaded: &LoadedCluster, tenant: &str) -> Program {
    let settings = loaded.login(tenant);
    beside(move || Program::start(settings)).await
}

/// The row of a tenant's only session; rows without a session are for its modules.
fn row<'u>(usage: &'u Usage, tenant: &str) -> Option<&'u UsageRow> {
    let mut rows = usage.sessions.iter();
    rows.find(|row| row.tenant.as_str() == tenant && row.session.0 != 0)
}

/// Waits until the worker reports that two tenants hold this much each; returns the report.
async fn held(loaded: &LoadedCluster, resident: [usize; 2]) -> Usage {
    let what = format!("{resident:?} bytes held");
    loaded
        .wait(&what, TIMEOUT, |loaded| {
            loaded.demo.observer.see(|seen| {
                let usage = seen.usage.values().next()?;
                let is = |tenant, bytes| row(usage, tenant).is_some_and(|it| it.resident == bytes);
                let [a, b] = resident.map(|bytes| bytes as u64);
                (is("a", a) && is("b", b)).then(|| usage.clone())
            })
        })
        .await
}

/// Waits for the worker's next report.
async fn later(loaded: &LoadedCluster, than: &Usage) -> Usage {
    loaded
        .wait("more usage", TIMEOUT, |loaded| {
            loaded.demo.observer.see(|seen| {
                let usage = seen.usage.values().next()?;
                (usage.elapsed_ns > than.elapsed_ns).then(|| usage.clone())
            })
        })
        .await
}

#[tokio::test]
async fn two_tenants_pay_half_each_for_equal_weights_and_write_to_their_own() {
    let loaded = cluster(&[("worker.share", "all"), ("worker.metering", "100ms")]).await;
    let a = start(&loaded, "a").await;
    let b = start(&loaded, "b").await;
    let before = held(&loaded, [BYTES / 2; 2]).await;
    assert_eq!(before.saved, BYTES as u64);
    // Half of it is counted, and both halves are the device's held memory.
    let after = later(&loaded, &before).await;
    let elapsed = u128::from(after.elapsed_ns - before.elapsed_ns);
    for tenant in ["a", "b"] {
        let [before, after] = [&before, &after].map(|usage| row(usage, tenant).expect("a row"));
        let counted = u128::from(after.byte_ms - before.byte_ms);
        let expected = BYTES as u128 / 2 * elapsed / 1_000_000;
        assert!(counted.abs_diff(expected) <= 2, "{counted} of {expected}");
    }
    // The other half is in each tenant's accounts as saved, for as long as they share.
    let credits = async || {
        let (rows, _) = table(&loaded, "tenant");
        rows.iter()
            .map(|row| number(row, "saved_credits"))
            .collect::<Vec<_>>()
    };
    let (began, first) = (Instant::now(), credits().await);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (passed, second) = (began.elapsed().as_secs_f64(), credits().await);
    for (first, second) in first.iter().zip(&second) {
        let held = (second - first) * f64::from(1 << 30) / (BYTES / 2) as f64;
        // Usage blocks come every second.
        assert!(
            (held - passed).abs() < 2.5 && held > 0.0,
            "{held} of {passed} s"
        );
    }
    assert_eq!(second.len(), 2, "of both");
    // One changes its weights: then each tenant pays for its own.
    let (a, b) = beside(move || {
        b.double();
        (a, b)
    })
    .await;
    let apart = held(&loaded, [BYTES; 2]).await;
    assert_eq!(apart.saved, 0);
    let (of_a, of_b) = beside(move || {
        let read = (a.read(), b.read());
        a.session.close().expect("closed");
        b.session.close().expect("closed");
        read
    })
    .await;
    let weights = weights();
    assert!(of_a == weights, "the other's writes are seen");
    let floats = weights
        .as_chunks()
        .0
        .iter()
        .map(|word| f32::from_le_bytes(*word));
    let doubled: Vec<u8> = floats.flat_map(|it| (it + it).to_le_bytes()).collect();
    assert!(of_b == doubled, "its own writes are lost");
    held(&loaded, [0; 2]).await;
}

#[tokio::test]
async fn unless_it_is_set_otherwise_a_tenants_own_sessions_share_and_no_others() {
    let loaded = cluster(&[]).await;
    let a = start(&loaded, "a").await;
    let b = start(&loaded, "b").await;
    assert_eq!(held(&loaded, [BYTES; 2]).await.saved, 0);
    let again = start(&loaded, "b").await;
    let both = held(&loaded, [BYTES, BYTES / 2]).await;
    assert_eq!(both.saved, BYTES as u64);
    let (a, b, again) = beside(move || (a.read(), b.read(), again.read())).await;
    assert!([a, b, again].iter().all(|read| *read == weights()));
}
