//! Positions that neither the record nor a tail has.

use bus_schemas::{GpuPosition, GpuTail, Incarnation};

use super::super::replayed::Hole;
use super::Chains;
use super::missing::{length, unnamed};

impl Chains {
    /// Advances to the end of a worker's chain, over positions that neither the record nor the tail
    /// has. Later positions of the tail are part of the order.
    pub(super) fn skip(&mut self, incarnation: Incarnation, to: &GpuTail) {
        let worker = self.workers.entry(incarnation).or_default();
        let from = worker.tail.position.saturating_add(1);
        let sealed = worker.proposed.range(from..=to.position);
        let sealed =
            sealed.filter(|(_, it)| it.is_sealed() && self.names.contains_key(&it.grant.session));
        let sealed: Vec<GpuPosition> = sealed.map(|(position, _)| *position).collect();
        for position in sealed {
            self.miss(incarnation, to.gpu, position - 1);
            if let Some(worker) = self.workers.get_mut(&incarnation) {
                self.adopted += worker.take_sealed(incarnation, position, &self.names);
            }
        }
        self.miss(incarnation, to.gpu, to.position);
        if let Some(worker) = self.workers.get_mut(&incarnation) {
            worker.arrive(to);
        }
    }

    /// Counts the missing positions through this one: gaps name them, or they are holes.
    fn miss(&mut self, incarnation: Incarnation, gpu: u32, through: GpuPosition) {
        let worker = self.workers.entry(incarnation).or_default();
        let missing = (worker.tail.position.saturating_add(1), through);
        worker.tail.position = worker.tail.position.max(through);
        let gaps = self
            .gaps
            .iter()
            .filter(|gap| gap.incarnation == incarnation);
        let holes = unnamed(missing, gaps.map(|gap| (gap.first, gap.last)));
        let unnamed: u64 = holes.iter().map(|it| length(*it)).sum();
        self.gap_positions += length(missing) - unnamed;
        self.holes
            .extend(holes.into_iter().map(|(first, last)| Hole {
                gpu,
                incarnation,
                first,
                last,
            }));
    }
}
