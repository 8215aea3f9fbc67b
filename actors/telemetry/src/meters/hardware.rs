//! A device as OpenTelemetry's conventions for hardware have it: whole, with its memory and its busy time.

use bus_schemas::Usage;

use super::shared::{DeviceIdentity, SPAN_NS, part};

/// One device.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    pub(crate) identity: DeviceIdentity,
    /// Bytes that sessions have.
    pub(crate) used: u64,
    /// Busy part of the last span, 0 to 1.
    pub(crate) busy: f64,
    /// Time up to the end of that span, and busy time in it, nanoseconds.
    before: (u64, u64),
}

impl Hardware {
    /// Takes in the usage up to now.
    pub(super) fn take(&mut self, identity: &DeviceIdentity, usage: &Usage) {
        self.identity.clone_from(identity);
        let charged = usage.sessions.iter().map(|row| row.resident);
        self.used = charged.fold(0, u64::saturating_add);
        let (elapsed, active) = self.before;
        let span = usage.elapsed_ns.saturating_sub(elapsed);
        if span >= SPAN_NS {
            self.busy = part(usage.active_ns.saturating_sub(active), span);
            self.before = (usage.elapsed_ns, usage.active_ns);
        }
    }

    /// The part of the memory that is in use, 0 to 1.
    pub(crate) fn filled(&self) -> f64 {
        part(self.used, self.identity.capacity)
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Incarnation, SessionId, UsageRow, WIRE_VERSION};

    use super::*;

    fn usage(elapsed_ms: u64, active_ms: u64, resident: &[u64]) -> Usage {
        let row = |(session, resident): (u64, &u64)| UsageRow {
            tenant: "a".parse().expect("a name"),
            session: SessionId(session),
            launches: 1,
            sm_ns: 0,
            device_ns: 0,
            byte_ms: 0,
            resident: *resident,
        };
        Usage {
            v: WIRE_VERSION,
            incarnation: Incarnation(1),
            sms: 4,
            elapsed_ns: elapsed_ms * 1_000_000,
            active_ns: active_ms * 1_000_000,
            starved_ns: 0,
            sm_ns: 0,
            saved: 7,
            sessions: (1..).zip(resident).map(row).collect(),
        }
    }

    #[test]
    fn a_device_is_busy_for_the_part_of_a_second_and_as_full_as_its_sessions_say() {
        let identity = DeviceIdentity {
            capacity: 400,
            ..DeviceIdentity::default()
        };
        let mut device = Hardware::default();
        for (elapsed, active, busy) in [
            (250, 250, 0.0),
            (1_000, 500, 0.5),
            (1_750, 1_250, 0.5),
            (2_000, 1_400, 0.9),
            (3_000, 1_400, 0.0),
            (4_000, 9_000, 1.0),
        ] {
            device.take(&identity, &usage(elapsed, active, &[100, 50]));
            assert!((device.busy - busy).abs() < 1e-9, "{elapsed}: {device:?}");
        }
        assert_eq!((device.used, device.filled()), (150, 0.375));
        device.take(&identity, &usage(4_100, 9_000, &[]));
        assert_eq!((device.used, device.filled()), (0, 0.0));
        device.take(&identity, &usage(4_200, 9_000, &[500]));
        assert_eq!(device.filled(), 1.0);
    }
}
