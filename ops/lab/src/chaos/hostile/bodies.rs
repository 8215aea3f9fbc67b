//! The bodies of the messages that a hostile tenant forges, one kind for each message of the protocol.

use bus_schemas::subject::{ToLeader, ToWorker};
use bus_schemas::{
    Alive, Batch, ClientState, CloseReason, CloseRequest, Column, CopyOffer, CostClass, CostRun,
    DataChunk, DevicesRequest, ExportKey, Intent, IpcAction, IpcRequest, KernelKey, MemoryRequest,
    OpenRequest, Row, SessionId, WIRE_VERSION, encode,
};

use super::forger::Forger;

/// Nonces of its requests for sessions, and so the maximum number of sessions that it opens.
const NONCES: u32 = 16;

impl Forger {
    /// A message to leaders, by number from 0 to 4.
    pub(super) fn body_to_leader(&mut self, which: u32, session: SessionId) -> (ToLeader, Vec<u8>) {
        let v = WIRE_VERSION;
        match which {
            0 => (ToLeader::Alive, self.alive()),
            1 => {
                let reasons = [CloseReason::Asked, CloseReason::Killed, CloseReason::Fault];
                let reason = self.pick(&reasons).unwrap_or(CloseReason::Expired);
                let after = self.random.bits();
                let close = CloseRequest {
                    v,
                    session,
                    after,
                    reason,
                };
                (ToLeader::Close, encode(&close))
            }
            2 => {
                let names = self.names();
                let open = OpenRequest {
                    v,
                    nonce: u64::from(self.random.below(NONCES)),
                    connection: self.pick(&names).unwrap_or_default(),
                    devices: [1, 0, 17, u32::MAX][self.random.below(4) as usize],
                };
                (ToLeader::Open, encode(&open))
            }
            3 => (ToLeader::Devices, encode(&DevicesRequest { v })),
            _ => (ToLeader::Intent(session), self.intent()),
        }
    }

    /// A claim, under the name of another connection, that sessions of others are alive on workers.
    fn alive(&mut self) -> Vec<u8> {
        let names = self.names();
        let count = 1 + self.random.below(8);
        let pairs: Vec<_> = (0..count)
            .map(|_| (self.session(), self.worker()))
            .collect();
        encode(&Alive {
            v: WIRE_VERSION,
            connection: self.pick(&names).unwrap_or_default(),
            sessions: pairs.iter().map(|(session, _)| *session).collect(),
            workers: pairs.iter().map(|(_, worker)| *worker).collect(),
            gpus: pairs.iter().map(|_| self.random.below(4)).collect(),
        })
    }

    fn intent(&mut self) -> Vec<u8> {
        let run = CostRun {
            key: KernelKey(self.random.bits()),
            bytes: 0,
            count: 1 + self.random.below(1_024),
            class: CostClass::Launch,
        };
        let mut rows = Vec::new();
        run.write(&mut rows);
        let runs = Column::new(&rows).expect("a row");
        encode(&Intent {
            v: WIRE_VERSION,
            first: 1 + u64::from(self.random.below(1_000)),
            count: run.count,
            runs,
        })
    }

    /// A message to a worker, by number from 5 to 10.
    pub(super) fn body_to_worker(&mut self, which: u32) -> (ToWorker, Vec<u8>) {
        let v = WIRE_VERSION;
        let number = 1 + u64::from(self.random.below(1_000));
        match which {
            5 => {
                // A sync of another tenant's session; the sync waits for nothing.
                let mut descriptor = [0; 48];
                descriptor[0] = 11;
                let batch = Batch {
                    v,
                    first: number,
                    count: 1,
                    results: self.random.bits(),
                    descriptors: &descriptor,
                    blob: &[],
                };
                (ToWorker::Batch, encode(&batch))
            }
            6 => {
                let bytes = vec![self.random.bits() as u8; 1 + self.random.below(2_048) as usize];
                let chunk = DataChunk {
                    v,
                    transfer: number,
                    total: 1 << self.random.below(34),
                    offset: self.random.bits() >> self.random.below(64),
                    hash: &[],
                    bytes: &bytes,
                };
                (ToWorker::Data, encode(&chunk))
            }
            7 => {
                let (sent, results) = (self.random.bits(), self.random.bits());
                (ToWorker::State, encode(&ClientState { v, sent, results }))
            }
            8 => {
                let request = MemoryRequest {
                    v,
                    number: self.random.bits(),
                    held: self.random.bits(),
                    after: number,
                    wanted: u64::MAX,
                    least: self.random.bits(),
                    recall: number,
                    process: None,
                    pinned: true,
                };
                (ToWorker::Memory, encode(&request))
            }
            9 => {
                let hashes = self.hashes.clone();
                let offer = CopyOffer {
                    v,
                    transfer: number,
                    total: (hashes.len() as u64 / 32) << 20,
                    hashes: &hashes,
                };
                (ToWorker::Offer, encode(&offer))
            }
            _ => (ToWorker::Ipc, encode(&self.ipc(number))),
        }
    }

    /// A request with a handle of memory that belongs to another tenant, or with an invalid one.
    fn ipc(&mut self, number: u64) -> IpcRequest {
        let guess = ExportKey([self.random.bits(), self.random.bits()]);
        let key = [self.key, guess][self.random.below(2) as usize];
        let address = self.random.bits();
        let action = match self.random.below(4) {
            0 => IpcAction::Import { key, address },
            1 => IpcAction::Export { key, address },
            2 => IpcAction::Drop { address },
            _ => IpcAction::Find { key },
        };
        IpcRequest {
            v: WIRE_VERSION,
            number,
            action,
        }
    }
}
