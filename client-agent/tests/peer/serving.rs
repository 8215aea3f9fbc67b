//! The answers of the leader and of the worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bus_schemas::subject::{LeaderSubject, Subjects, ToClient, ToLeader, ToWorker, WorkerSubject};
use bus_schemas::{
    Batch, CloseRequest, Code, Column, DataChunk, DeviceResult, Failure, Incarnation, Intent,
    LeaderId, LeaderNotice, Op, OpenAnswer, OpenRequest, Opened, Prepared, RefusedImage,
    RequestReports, ResultKind, SessionId, Staged, Tenant, WIRE_VERSION, Window, WorkerAck, decode,
    encode,
};
use futures_util::StreamExt;

use super::held::Held;
use super::knobs::Knobs;

const WORKER: Incarnation = Incarnation(0xabc);
const LEADER: LeaderId = LeaderId(0x1ead);

/// The leader and the worker.
pub(super) struct Peer {
    bus: async_nats::Client,
    subjects: Subjects,
    knobs: Arc<Knobs>,
    opened: HashMap<u64, Opened>,
    sessions: HashMap<SessionId, Held>,
    images: Vec<Vec<u8>>,
}

impl Peer {
    pub(super) fn new(bus: async_nats::Client, knobs: Arc<Knobs>) -> Self {
        Self {
            bus,
            subjects: Subjects::new(&"test".parse().expect("a name")),
            knobs,
            opened: HashMap::new(),
            sessions: HashMap::new(),
            images: Vec::new(),
        }
    }

    /// Answers all messages of clients.
    pub(super) async fn serve(&mut self, mut messages: async_nats::Subscriber) {
        while let Some(message) = messages.next().await {
            let subject = message.subject.as_str();
            if self.subjects.parse_request_reports(subject).is_some() {
                let reports: RequestReports = decode(&message.payload).expect("a report");
                let mut known = self.knobs.reports.lock().expect("unpoisoned");
                known.extend(reports.rows.iter().map(|row| (reports.session, *row)));
                continue;
            }
            if self.knobs.loses() {
                continue;
            }
            if let Some(LeaderSubject::Tenant(tenant, what)) = self.subjects.parse_leader(subject) {
                self.lead(&tenant, what, &message).await;
            } else if let Some(WorkerSubject::Tenant(tenant, session, what)) =
                self.subjects.parse_worker(subject)
            {
                self.work(&tenant, session, what, &message.payload).await;
            }
        }
    }

    async fn lead(&mut self, tenant: &Tenant, what: ToLeader, message: &async_nats::Message) {
        let payload = &message.payload;
        match what {
            ToLeader::Open => {
                let request: OpenRequest = decode(payload).expect("a request");
                let count = self.opened.len() as u64 + 1;
                let opened = self.opened.entry(request.nonce).or_insert(Opened {
                    session: SessionId(count),
                    ordinal: count,
                    incarnation: WORKER,
                    gpu: 0,
                    window: Window {
                        base: 0x1000_0000_0000 + (count << 36),
                        size: 16 << 30,
                    },
                    quota: 1 << 30,
                    epoch: 1,
                    leader: LEADER,
                    properties: None,
                    traced: true,
                });
                self.sessions.entry(opened.session).or_default();
                let answer = OpenAnswer::of(std::slice::from_ref(opened));
                let reply = message.reply.clone().expect("a reply subject");
                let _ = self.bus.publish(reply, encode(&answer).into()).await;
            }
            ToLeader::Intent(session) => {
                let intent: Intent<'_> = decode(payload).expect("an intent");
                let last = intent.first + u64::from(intent.count) - 1;
                if let Some(held) = self.sessions.get_mut(&session)
                    && intent.first <= held.queued + 1
                {
                    held.queued = held.queued.max(last);
                }
                self.run(tenant, session).await;
                self.notice(tenant, session, None).await;
            }
            ToLeader::Close => {
                let request: CloseRequest = decode(payload).expect("a request");
                let done = self.sessions.get(&request.session).map(|held| held.done);
                let over = done.is_none_or(|done| done >= request.after)
                    || request.reason != bus_schemas::CloseReason::Asked;
                if over {
                    self.sessions.remove(&request.session);
                    let gone = Failure::new(Code::SessionGone, "closed");
                    self.notice(tenant, request.session, Some(gone)).await;
                }
            }
            ToLeader::Alive | ToLeader::Devices => {}
        }
    }

    async fn work(&mut self, tenant: &Tenant, session: SessionId, what: ToWorker, payload: &[u8]) {
        let Some(held) = self.sessions.get_mut(&session) else {
            return;
        };
        match what {
            ToWorker::Batch => {
                self.knobs.batches.fetch_add(1, Ordering::Relaxed);
                let batch: Batch<'_> = decode(payload).expect("a batch");
                held.results.retain(|number, _| *number > batch.results);
                let have = held.ops.len() as u64;
                if batch.first <= have + 1 {
                    let skip = (have + 1 - batch.first) as usize;
                    let ops = batch.ops().expect("ops");
                    let new = ops
                        .iter()
                        .skip(skip)
                        .map(|one| (one.op, one.payload.to_vec()));
                    held.ops.extend(new);
                }
            }
            ToWorker::State => {
                let state: bus_schemas::ClientState = decode(payload).expect("a state");
                held.results.retain(|number, _| *number > state.results);
                let again: Vec<_> = held.results.clone().into_iter().collect();
                for (number, (op, kind, bytes)) in again {
                    self.result(tenant, session, number, op, kind, &bytes).await;
                }
            }
            // No device of this peer claims that its worker answers these.
            ToWorker::Memory | ToWorker::Offer | ToWorker::Ipc => {}
            ToWorker::Data => {
                let chunk: DataChunk<'_> = decode(payload).expect("a chunk");
                let total = chunk.total as usize;
                let known = chunk.module().is_some_and(|hash| {
                    let known = |image: &Vec<u8>| bus_schemas::ModuleHash::of(image) == hash;
                    self.images.iter().any(known)
                });
                if chunk.bytes.is_empty() && !held.transfers.contains_key(&chunk.transfer) {
                    held.offered.insert(chunk.transfer);
                }
                let transfer = held
                    .transfers
                    .entry(chunk.transfer)
                    .or_insert_with(|| (vec![0; total], vec![false; total], false));
                let start = chunk.offset as usize;
                let end = start + chunk.bytes.len();
                // On a busy machine an answer may be late. Then bytes are resent, and an offered image is sent.
                let new = transfer.1[start..end].iter().filter(|have| !**have);
                let bytes = new.count() as u64;
                transfer.0[start..end].copy_from_slice(chunk.bytes);
                transfer.1[start..end].fill(true);
                if chunk.module().is_some() && !held.offered.contains(&chunk.transfer) {
                    self.knobs.image_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                transfer.2 |= known || transfer.1.iter().all(|have| *have);
                if transfer.2 && chunk.module().is_some() {
                    held.images.insert(chunk.transfer);
                    if !known {
                        self.images.push(transfer.0.clone());
                    }
                }
            }
        }
        self.run(tenant, session).await;
        self.acknowledge(tenant, session).await;
    }

    async fn run(&mut self, tenant: &Tenant, session: SessionId) {
        let mut results = Vec::new();
        let Some(held) = self.sessions.get_mut(&session) else {
            return;
        };
        while held.failure.is_none() && held.done < held.queued.min(held.ops.len() as u64) {
            let (op, payload) = held.ops[held.done as usize].clone();
            let number = held.done + 1;
            if number == self.knobs.fault.load(Ordering::Relaxed) {
                let failure = Failure::new(Code::IllegalAddress, "at 0x0");
                held.failure = Some((number, failure));
                break;
            }
            held.done = number;
            let result = held.apply(&op, &payload);
            if let Op::Launch(launch) = op {
                let mut launches = self.knobs.launches.lock().expect("unpoisoned");
                launches.push((launch.function, launch.grid[0], payload));
            }
            if let Some((kind, bytes)) = result {
                held.made += 1;
                held.results
                    .insert(held.made, (number, kind, bytes.clone()));
                results.push((held.made, number, kind, bytes));
            }
        }
        let failed = held.failure.is_some();
        for (number, op, kind, bytes) in results {
            self.result(tenant, session, number, op, kind, &bytes).await;
        }
        if failed {
            self.acknowledge(tenant, session).await;
        }
    }

    async fn result(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        number: u64,
        op: u64,
        kind: ResultKind,
        bytes: &[u8],
    ) {
        let subject = self.subjects.to_client(tenant, session, ToClient::Result);
        let mut offset = 0;
        loop {
            let end = (offset + bus_schemas::limits::CHUNK_BYTES).min(bytes.len());
            let part = DeviceResult {
                v: WIRE_VERSION,
                number,
                op,
                kind,
                device_ns: 0,
                total: bytes.len() as u64,
                offset: offset as u64,
                bytes: &bytes[offset..end],
                events: Column::default(),
            };
            if !self.knobs.loses() {
                let _ = self
                    .bus
                    .publish(subject.clone(), encode(&part).into())
                    .await;
            }
            offset = end;
            if offset >= bytes.len() {
                break;
            }
        }
    }

    async fn acknowledge(&mut self, tenant: &Tenant, session: SessionId) {
        let Some(held) = self.sessions.get(&session) else {
            return;
        };
        let rows: Vec<Staged> = held
            .transfers
            .iter()
            .map(|(transfer, (bytes, have, whole))| Staged {
                transfer: *transfer,
                received: match whole {
                    true => bytes.len() as u64,
                    false => have.iter().take_while(|have| **have).count() as u64,
                },
            })
            .collect();
        // Reported with every acknowledgement, to all receivers.
        let images = held.images.iter();
        let (refused, ready): (Vec<u64>, Vec<u64>) = images.partition(|transfer| {
            let (image, ..) = &held.transfers[transfer];
            String::from_utf8_lossy(image).contains("frobnicate")
        });
        let ready: Vec<_> = ready.into_iter().map(Prepared).collect();
        let refused = refused.into_iter().map(|transfer| RefusedImage {
            transfer,
            failure: Failure::new(Code::BadModule, "line 5: `frobnicate`"),
        });
        let (mut packed, mut prepared) = (Vec::new(), Vec::new());
        let ack = WorkerAck {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LEADER,
            received: held.ops.len() as u64,
            done: held.done,
            send_through: held.done + 16_384,
            staging: 8 << 20,
            results: held.made,
            staged: Column::pack(&rows, &mut packed),
            failure: held.failure.as_ref().map(|(_, failure)| failure.clone()),
            failed_op: held.failure.as_ref().map_or(0, |(op, _)| *op),
            prepared: Column::pack(&ready, &mut prepared),
            refused: refused.collect(),
            held: Column::default(),
        };
        let subject = self.subjects.to_client(tenant, session, ToClient::Worker);
        if !self.knobs.loses() {
            let _ = self.bus.publish(subject, encode(&ack).into()).await;
        }
    }

    async fn notice(&mut self, tenant: &Tenant, session: SessionId, ended: Option<Failure>) {
        let held = self.sessions.get(&session);
        let notice = LeaderNotice {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LEADER,
            queued: held.map_or(0, |held| held.queued),
            granted: held.map_or(0, |held| held.done),
            queue_through: held.map_or(0, |held| held.done) + 16_384,
            ended,
            alone: false,
        };
        let subject = self.subjects.to_client(tenant, session, ToClient::Leader);
        if !self.knobs.loses() {
            let _ = self.bus.publish(subject, encode(&notice).into()).await;
        }
    }
}
