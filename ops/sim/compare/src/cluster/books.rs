//! The books of a run: the launches of each program, and their results.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use sim_cluster::Nanos;

use crate::device::Device;
use crate::outcome::ComparedRun;
use crate::program::Program;
use crate::scenario::{Scenario, SimulationError};

/// The books, shared by programs and device.
pub(super) type Shared = Rc<RefCell<Books>>;

/// A launch that was called, for the timeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub(super) request: u64,
    pub(super) kernel: u32,
    pub(super) at: Nanos,
}

/// One client's program.
#[derive(Debug)]
pub(super) struct Customer {
    pub(super) program: Program,
    pub(super) is_open: bool,
    /// Launches that were called and are not done, in order.
    pub(super) called: VecDeque<Called>,
}

/// State beside the cluster, kept until the end.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) customers: Vec<Customer>,
    pub(super) device: Device,
    pub(super) outcome: ComparedRun,
}

impl Books {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let (from, to) = (scenario.warm_up, scenario.end());
        let customer = |index| Customer {
            program: Program::new(scenario, index),
            is_open: false,
            called: VecDeque::new(),
        };
        Self {
            customers: (0..scenario.tenants.len()).map(customer).collect(),
            device: Device::new(scenario.device, scenario.gap, from, to),
            outcome: ComparedRun::new(scenario),
        }
    }

    /// Returns the outcome. All sessions have to be open by `up`.
    pub(super) fn finish(
        &mut self,
        scenario: &Scenario,
        up: Nanos,
    ) -> Result<ComparedRun, SimulationError> {
        if scenario.end() > up && self.customers.iter().any(|it| !it.is_open) {
            return Err(SimulationError::Cluster("a session never opened".into()));
        }
        let mut outcome = std::mem::take(&mut self.outcome);
        for (customer, tenancy) in self.customers.iter_mut().zip(&mut outcome.tenants) {
            customer.program.finish(scenario, tenancy);
        }
        self.device.advance(scenario.end());
        outcome.active_ns = self.device.active();
        outcome.finish();
        Ok(outcome)
    }
}
