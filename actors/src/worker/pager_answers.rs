//! Answers to the VramPager, which reads the device's resources.

use actix::{Context, Handler, MessageResult};

use super::actor::GpuWorker;
use super::readings::{Blocks, CutUsage, ReadUsage, TakeMeasured, TakeTimes, UsageReading, cut};

impl Handler<ReadUsage> for GpuWorker {
    type Result = MessageResult<ReadUsage>;

    fn handle(&mut self, _: ReadUsage, _: &mut Context<Self>) -> Self::Result {
        MessageResult(UsageReading::of(self.worker.resources(), self.now()))
    }
}

impl Handler<TakeMeasured> for GpuWorker {
    type Result = MessageResult<TakeMeasured>;

    fn handle(&mut self, _: TakeMeasured, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.worker.resources_mut().measured())
    }
}

impl Handler<TakeTimes> for GpuWorker {
    type Result = MessageResult<TakeTimes>;

    fn handle(&mut self, most: TakeTimes, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.worker.resources_mut().take_times(most.0))
    }
}

impl Handler<CutUsage> for GpuWorker {
    type Result = ();

    fn handle(&mut self, _: CutUsage, _: &mut Context<Self>) {
        let now = self.now();
        let blocks = cut(self.worker.resources_mut(), now, false);
        self.pager.do_send(Blocks(blocks));
    }
}
