//! The ids of traces and spans: hashes of what they stand for, so that they are the same whenever they are computed.

use bus_schemas::{OpNumber, SessionId, SpanId, Tenant, TraceId};

use crate::join::{Part, Request};

/// The ids of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    /// The hash of the cluster's name.
    cluster: blake3::Hasher,
}

impl Ids {
    pub(crate) fn new(cluster: &Tenant) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"warploom trace 1\0");
        hasher.update(cluster.as_str().as_bytes());
        Self { cluster: hasher }
    }

    /// The trace of a request without a parent. `began` tells clusters with the same name apart.
    pub(crate) fn trace(&self, session: SessionId, first: OpNumber, began: u64) -> TraceId {
        let hash = self.hash("trace", &[session.0, first, began]);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        match id == [0; 16] {
            true => TraceId([1; 16]),
            false => TraceId(id),
        }
    }

    /// The span of a request, or of a part of it with a kind and two numbers of its own.
    pub(crate) fn span(
        &self,
        kind: &str,
        session: SessionId,
        first: OpNumber,
        part: [u64; 2],
    ) -> SpanId {
        let hash = self.hash(kind, &[session.0, first, part[0], part[1]]);
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        match id == [0; 8] {
            true => SpanId([1; 8]),
            false => SpanId(id),
        }
    }

    fn hash(&self, kind: &str, numbers: &[u64]) -> [u8; 32] {
        let mut hasher = self.cluster.clone();
        hasher.update(b"\0");
        hasher.update(kind.as_bytes());
        hasher.update(b"\0");
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// Returns the trace that a request belongs to.
pub(crate) fn trace_of(request: &Request, ids: &Ids) -> TraceId {
    let report = &request.report;
    let own = || ids.trace(request.session, report.first, report.began);
    report.parent.map_or_else(own, |parent| parent.trace)
}

/// Returns the span that stands for a request.
pub(crate) fn root_of(request: &Request, ids: &Ids) -> SpanId {
    ids.span("request", request.session, request.report.first, [0, 0])
}

/// Returns the span that stands for the execution of a slice.
pub(crate) fn execution_of(request: &Request, part: &Part, ids: &Ids) -> SpanId {
    let slice = [part.position, part.first];
    ids.span("execute", request.session, request.report.first, slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_again_and_differ_by_each_part() {
        let one = Ids::new(&"lab".parse().expect("a name"));
        let other = Ids::new(&"lab2".parse().expect("a name"));
        let id =
            |ids: &Ids, kind, session, first, part| ids.span(kind, SessionId(session), first, part);
        let base = id(&one, "queue", 1, 2, [3, 4]);
        assert_eq!(base, id(&one.clone(), "queue", 1, 2, [3, 4]));
        for different in [
            id(&other, "queue", 1, 2, [3, 4]),
            id(&one, "execute", 1, 2, [3, 4]),
            id(&one, "queue", 2, 2, [3, 4]),
            id(&one, "queue", 1, 3, [3, 4]),
            id(&one, "queue", 1, 2, [4, 4]),
            id(&one, "queue", 1, 2, [3, 5]),
        ] {
            assert_ne!(base, different);
        }
        assert_ne!(one.trace(SessionId(1), 1, 1), one.trace(SessionId(1), 2, 1));
    }
}
