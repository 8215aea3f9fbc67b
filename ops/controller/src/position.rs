//! A position of the launch order, as the interface tells it.

use std::str::FromStr;

use bus_schemas::{Epoch, GlobalPosition};
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;
use warploom_cli::record::PositionRow;

/// Where a position is in the order of the whole cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At {
    /// The epoch.
    pub(crate) epoch: Epoch,
    /// The position in it.
    pub(crate) global: GlobalPosition,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.global)
    }
}

impl FromStr for At {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "not EPOCH.POSITION, such as 3.1742";
        let (epoch, global) = text.split_once('.').ok_or(wrong)?;
        Ok(Self {
            epoch: epoch.parse().map_err(|_| wrong)?,
            global: global.parse().map_err(|_| wrong)?,
        })
    }
}

/// A position whose end is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Position {
    /// `EPOCH.GLOBAL`: its place in the order of the whole cluster.
    #[schema(example = "3.1742")]
    pub(crate) id: String,
    /// The device.
    pub(crate) gpu: u32,
    /// The worker, 16 hexadecimal digits.
    pub(crate) worker: String,
    /// The position in the worker's order.
    pub(crate) position: u64,
    /// The session's tenant.
    pub(crate) tenant: String,
    /// The session, 16 hexadecimal digits.
    pub(crate) session: String,
    /// The session's number among its tenant's, from 1.
    pub(crate) ordinal: u64,
    /// `run`, `open`, `close`, `standing`, `revoke` or `return`.
    pub(crate) kind: String,
    /// First op.
    pub(crate) first: u64,
    /// Last op.
    pub(crate) last: u64,
    /// The priority that it ran at.
    pub(crate) priority: u8,
    /// Kernels among the ops.
    pub(crate) kernels: Option<u64>,
    /// Charged device nanoseconds.
    pub(crate) cost_ns: u64,
    /// Measured device nanoseconds.
    pub(crate) measured_ns: Option<u64>,
    /// `ran`, `void` or `gone`.
    pub(crate) outcome: Option<String>,
    /// Not recomputed, but taken from what a worker handed over.
    pub(crate) adopted: bool,
    /// When its end was recorded, milliseconds since 1970; of those that ended before this controller
    /// looked, null.
    pub(crate) at_ms: Option<u64>,
}

impl Position {
    /// Of a row of the order.
    pub(crate) fn of(row: PositionRow, at_ms: Option<u64>) -> Self {
        let at = At {
            epoch: row.epoch,
            global: row.global,
        };
        Self {
            id: at.to_string(),
            gpu: row.gpu,
            worker: row.incarnation,
            position: row.position,
            tenant: row.tenant,
            session: row.session,
            ordinal: row.ordinal,
            kind: row.kind,
            first: row.first,
            last: row.last,
            priority: row.priority,
            kernels: row.kernels,
            cost_ns: row.cost_ns,
            measured_ns: row.measured_ns,
            outcome: row.outcome,
            adopted: row.adopted,
            at_ms,
        }
    }
}

/// A position as whoever watches is told of it: rendered once for all of them.
#[derive(Debug, Clone)]
pub(crate) struct PositionEvent {
    /// Its place.
    pub(crate) at: At,
    /// The position.
    pub(crate) position: Position,
    /// The event.
    pub(crate) event: Bytes,
}

impl PositionEvent {
    /// Of a row of the order.
    pub(crate) fn of(row: PositionRow, at_ms: Option<u64>) -> Self {
        let at = At {
            epoch: row.epoch,
            global: row.global,
        };
        let position = Position::of(row, at_ms);
        // Numbers and short texts always have a form in JSON.
        let data = serde_json::to_string(&position).unwrap_or_default();
        let event = format!("id: {at}\nevent: position\ndata: {data}\n\n").into();
        Self {
            at,
            position,
            event,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_as_it_is_written() {
        let at = At {
            epoch: 3,
            global: 17,
        };
        assert_eq!(at.to_string().parse(), Ok(at));
        for bad in ["", "3", ".", "3.", "a.b", "3.-1", "3.1.2"] {
            assert!(bad.parse::<At>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_event_is_one_line_of_data_with_its_place() {
        let row = PositionRow {
            epoch: 3,
            global: 17,
            tenant: "chat".into(),
            ..PositionRow::default()
        };
        let told = PositionEvent::of(row, Some(5));
        let text = String::from_utf8(told.event.to_vec()).unwrap();
        let (head, data) = text.split_once("data: ").unwrap();
        assert_eq!(head, "id: 3.17\nevent: position\n");
        assert!(data.ends_with("}\n\n") && data.trim_end().lines().count() == 1);
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(
            (&data["tenant"], &data["at_ms"]),
            (&"chat".into(), &5.into())
        );
    }
}
