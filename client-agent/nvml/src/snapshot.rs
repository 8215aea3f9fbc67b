//! A snapshot of a tenant's devices: memory, activity, processes.

use bus_schemas::{
    DeviceProperties, GpuId, Incarnation, MemoryStatus, SessionMemoryStatus, ShortText,
    TenantDevice,
};
use client_session::{bus_id, gpu_uuid};

/// A process with sessions, on the machine that its client named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessState {
    /// The machine.
    pub host: String,
    /// Process id on that machine.
    pub pid: u32,
    /// The file name of its program.
    pub name: String,
    /// Bytes that its sessions on the device have allocated.
    pub held: u64,
    /// The part of the last second in which its launches ran on the device, parts per million.
    pub busy_ppm: u32,
}

/// The tenant's memory on a device, and the time that it kept the device busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceShare {
    /// Bytes that the tenant may hold.
    pub total: u64,
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes that it may still allocate: less than the rest of `total` if other tenants have the
    /// memory.
    pub free: u64,
    /// The part of the last second in which at least one launch of the tenant ran, parts per million.
    pub busy_ppm: u32,
}

/// A device as its tenant sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceState {
    /// Its number in the cluster.
    pub gpu: GpuId,
    /// The worker that serves it.
    pub worker: Incarnation,
    /// Properties of the device.
    pub properties: DeviceProperties,
    /// Bytes that the tenant may hold there, as reported by the leader: its quota, or the device's
    /// memory.
    pub allowed: u64,
    /// The worker's report; `None` if it does not answer, because it has just gone or is of an
    /// older build.
    pub share: Option<DeviceShare>,
    /// The tenant's processes there, by machine and id. Sessions of clients that do not report
    /// their process are in none.
    pub processes: Vec<ProcessState>,
}

impl DeviceState {
    /// Builds the state of a device from the leader's report and, if it answered, its worker's.
    #[must_use]
    pub fn new(device: TenantDevice, status: Option<&MemoryStatus>) -> Self {
        let sessions = status.map_or(&[][..], |status| &status.sessions);
        let device_memory = Some(device.properties.memory).filter(|bytes| *bytes > 0);
        let allowed = device.quota.min(device_memory.unwrap_or(u64::MAX));
        // The worker knows nothing of a tenant without a session there, and reports nothing of
        // others.
        let told = |status: &MemoryStatus| match status.tenants.first() {
            Some(own) => (status.capacity, status.free, own.busy_ppm),
            None => (allowed, allowed, 0),
        };
        let share = status.map(|status| {
            let (total, free, busy_ppm) = told(status);
            let held = status.held;
            DeviceShare {
                total,
                held,
                free,
                busy_ppm,
            }
        });
        Self {
            gpu: device.gpu,
            worker: device.incarnation,
            allowed,
            properties: device.properties,
            share,
            processes: processes(sessions),
        }
    }

    /// The state without the worker's report.
    #[must_use]
    pub fn unheard(&self) -> Self {
        Self {
            share: None,
            processes: Vec::new(),
            ..self.clone()
        }
    }

    /// Bytes that the tenant may hold: from the worker's report, else from the leader's.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.share.map_or(self.allowed, |share| share.total)
    }

    /// The UUID of the device, in the form that CUDA programs write.
    #[must_use]
    pub fn uuid(&self) -> String {
        gpu_uuid(&self.properties.uuid)
    }

    /// The PCI bus id of the device, equal to that of `cuDeviceGetPCIBusId`.
    #[must_use]
    pub fn bus_id(&self) -> String {
        bus_id(self.gpu)
    }

    /// The processes on one machine.
    pub fn processes_on(&self, host: &str) -> impl Iterator<Item = &ProcessState> {
        self.processes
            .iter()
            .filter(move |process| process.host == host)
    }
}

/// Converts parts per million to whole percent, at most 100.
#[must_use]
pub fn percent(ppm: u32) -> u32 {
    (ppm.saturating_add(5_000) / 10_000).min(100)
}

/// The processes of these sessions.
fn processes(sessions: &[SessionMemoryStatus]) -> Vec<ProcessState> {
    let mut processes: Vec<ProcessState> = Vec::new();
    for session in sessions {
        let Some(process) = &session.process else {
            continue;
        };
        let (host, pid) = (process.host.as_str(), process.pid);
        let known = processes
            .iter_mut()
            .find(|it| it.pid == pid && it.host == host);
        match known {
            Some(known) => {
                known.held = known.held.saturating_add(session.held);
                known.busy_ppm = known
                    .busy_ppm
                    .saturating_add(session.busy_ppm)
                    .min(1_000_000);
            }
            None => processes.push(ProcessState {
                host: host.to_owned(),
                pid,
                name: process.name.as_str().to_owned(),
                held: session.held,
                busy_ppm: session.busy_ppm,
            }),
        }
    }
    processes.sort_by(|a, b| (&a.host, a.pid).cmp(&(&b.host, b.pid)));
    processes
}

/// The machine and process of a viewer, which determine the order of the devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
}

impl Viewer {
    /// This process.
    #[must_use]
    pub fn here() -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            // In the form that clients report.
            host: ShortText::new(host.trim()).as_str().to_owned(),
            pid: std::process::id(),
        }
    }
}

/// The devices in the viewer's order. First come those with sessions of the viewer, then those with
/// sessions of another process of the tenant on its machine, then the rest. Each group is sorted by
/// number; at most `most` devices are returned.
#[must_use]
pub fn arranged(mut devices: Vec<DeviceState>, viewer: &Viewer, most: usize) -> Vec<DeviceState> {
    devices.sort_by_key(|device| {
        let mut here = device.processes_on(&viewer.host).peekable();
        let any = here.peek().is_some();
        let own = here.any(|process| process.pid == viewer.pid);
        (!own, !any, device.gpu)
    });
    devices.truncate(most);
    devices
}

#[cfg(test)]
mod tests {
    use bus_schemas::{ClientProcess, SessionId};
    use proptest::prelude::*;

    use super::*;

    fn session(host: &str, pid: u32, held: u64) -> SessionMemoryStatus {
        SessionMemoryStatus {
            tenant: "a".parse().expect("a name"),
            session: SessionId(1),
            held,
            busy_ppm: 600_000,
            process: Some(ClientProcess {
                host: ShortText::new(host),
                pid,
                name: ShortText::new("train"),
            }),
        }
    }

    fn device(gpu: GpuId, sessions: &[SessionMemoryStatus]) -> DeviceState {
        DeviceState {
            gpu,
            worker: Incarnation(1),
            properties: DeviceProperties::default(),
            allowed: 8,
            share: None,
            processes: processes(sessions),
        }
    }

    #[test]
    fn sessions_of_one_process_are_added_up_and_nameless_ones_left_out() {
        let mut nameless = session("a", 7, 1);
        nameless.process = None;
        let sessions = [
            session("b", 7, 1),
            session("a", 7, 2),
            session("a", 7, 3),
            nameless,
        ];
        let found = processes(&sessions);
        let shown: Vec<_> = found
            .iter()
            .map(|it| (&*it.host, it.pid, it.held))
            .collect();
        assert_eq!(shown, [("a", 7, 5), ("b", 7, 1)]);
        assert_eq!(found[0].busy_ppm, 1_000_000, "not above all of the time");
        assert_eq!((percent(0), percent(4_999), percent(5_000)), (0, 0, 1));
        assert_eq!((percent(996_000), percent(u32::MAX)), (100, 100));
    }

    #[test]
    fn own_devices_come_first_then_those_of_the_machine() {
        let viewer = Viewer {
            host: "here".into(),
            pid: 5,
        };
        let devices = || {
            vec![
                device(3, &[session("here", 5, 1)]),
                device(1, &[session("here", 6, 1)]),
                device(0, &[session("there", 5, 1)]),
                device(2, &[]),
            ]
        };
        let numbers = |most| -> Vec<_> {
            let shown = arranged(devices(), &viewer, most);
            shown.iter().map(|device| device.gpu).collect()
        };
        assert_eq!(numbers(9), [3, 1, 0, 2]);
        assert_eq!(numbers(1), [3]);
        assert_eq!(numbers(0), [0; 0]);
    }

    proptest! {
        #[test]
        fn arranging_loses_and_doubles_no_device(gpus in proptest::collection::btree_set(0_u32..64, 0..20), most in 0_usize..30) {
            let devices = gpus.iter().rev().map(|gpu| device(*gpu, &[])).collect();
            let shown = arranged(devices, &Viewer { host: "h".into(), pid: 1 }, most);
            let shown: Vec<_> = shown.iter().map(|it| it.gpu).collect();
            let wanted: Vec<_> = gpus.into_iter().take(most).collect();
            prop_assert_eq!(shown, wanted);
        }
    }
}
