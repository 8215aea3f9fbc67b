//! The ledger of usage by tenant and kernel key, in numbered blocks. Each block holds the usage since the
//! block before, and the sums since the incarnation began.

use std::collections::BTreeMap;

use bus_schemas::{
    GpuId, Incarnation, KernelKey, KernelName, KernelUse, MemoryUse, MoveTotals, Tenant,
    TenantMoves, Usage, UsageBlock, UseTotals, WIRE_VERSION, invariant, limits,
};
use device::KernelTime;

/// Maximum bytes of a block beside its rows and names.
const HEAD_BYTES: usize = 1 << 10;
/// Maximum bytes of a row by kernel and tenant, or of memory's moves.
const ROW_BYTES: usize = 96;
/// Number of blocks that are skipped while only held memory changes.
const IDLE: u32 = 10;

/// The facts of a block that the shell knows: its time, and the end of the ledger.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Time of the block, milliseconds since 1970.
    pub at_ms: u64,
    /// True if no block follows.
    pub last: bool,
}

/// The usage of one incarnation.
#[derive(Debug)]
pub struct Ledger {
    incarnation: Incarnation,
    gpu: GpuId,
    sms: u32,
    number: u64,
    /// Usage that is in no block yet.
    used: BTreeMap<(Tenant, KernelKey), KernelUse>,
    /// Byte-milliseconds that are in blocks.
    held: BTreeMap<Tenant, u64>,
    /// Move totals that are in blocks.
    moved: BTreeMap<Tenant, MoveTotals>,
    names: Vec<KernelName>,
    /// Totals that are in blocks.
    totals: UseTotals,
    /// The last done report that covers only usage that is counted here or in blocks.
    reports: u64,
    passed: u32,
}

impl Ledger {
    /// Creates the ledger of a device, without usage.
    #[must_use]
    pub fn new(incarnation: Incarnation, gpu: GpuId, sms: u32) -> Self {
        Self {
            incarnation,
            gpu,
            sms,
            number: 0,
            used: BTreeMap::new(),
            held: BTreeMap::new(),
            moved: BTreeMap::new(),
            names: Vec::new(),
            totals: UseTotals::default(),
            reports: 0,
            passed: 0,
        }
    }

    /// Notes that [`Self::ran`] has counted all usage of the done reports through this one.
    pub(crate) fn reported(&mut self, through: u64) {
        self.reports = through;
    }

    /// Counts a slice of a tenant that ran for `device_ns`, and its launches.
    pub(crate) fn ran(&mut self, tenant: &Tenant, device_ns: u64, kernels: &[KernelTime]) {
        let launched: u64 = kernels.iter().map(|kernel| kernel.total_ns).sum();
        for kernel in kernels {
            self.add(tenant, kernel);
        }
        if device_ns > launched {
            let beside = KernelTime {
                key: KernelKey(0),
                count: 0,
                total_ns: device_ns - launched,
                sm_ns: 0,
                least_ns: 0,
                most_ns: 0,
            };
            self.add(tenant, &beside);
        }
    }

    fn add(&mut self, tenant: &Tenant, kernel: &KernelTime) {
        let empty = || KernelUse {
            tenant: tenant.clone(),
            key: kernel.key,
            launches: 0,
            device_ns: 0,
            sm_ns: 0,
            least_ns: kernel.least_ns,
            most_ns: kernel.most_ns,
        };
        let row = self.used.entry((tenant.clone(), kernel.key));
        let row = row.or_insert_with(empty);
        row.launches += kernel.count;
        row.device_ns += kernel.total_ns;
        row.sm_ns += kernel.sm_ns;
        row.least_ns = row.least_ns.min(kernel.least_ns);
        row.most_ns = row.most_ns.max(kernel.most_ns);
    }

    /// Adds the name of a kernel key; called once for each key.
    pub fn name(&mut self, name: KernelName) {
        self.names.push(name);
    }

    /// Returns the next blocks, if there is anything to report. `usage` is everything up to now, and `moves`
    /// the totals of moves. The first block announces the incarnation. If the incarnation dies, readers know
    /// that its usage is missing.
    pub(crate) fn cut(
        &mut self,
        usage: &Usage,
        moves: &BTreeMap<Tenant, MoveTotals>,
        cut: &Cut,
    ) -> Vec<UsageBlock> {
        self.passed += 1;
        let must = cut.last || self.number == 0;
        let news = self.moves_since(moves);
        let moved = news.iter().any(|row| row.moves.has_events());
        if self.used.is_empty() && !moved && self.passed < IDLE && !must {
            return Vec::new();
        }
        let memory = self.memory(usage);
        let held = !memory.is_empty() || !news.is_empty();
        if self.used.is_empty() && !held && self.names.is_empty() && !must {
            return Vec::new();
        }
        self.passed = 0;
        let mut blocks = Vec::new();
        let mut block = self.block(usage, cut);
        let mut room = limits::RECORD_BLOCK_BYTES - HEAD_BYTES;
        for row in memory {
            block = self.turn(block, &mut room, ROW_BYTES, usage, cut, &mut blocks);
            block.memory.push(row);
        }
        for row in news {
            block = self.turn(block, &mut room, ROW_BYTES, usage, cut, &mut blocks);
            let moved = self.moved.entry(row.tenant.clone()).or_default();
            moved.add(&row.moves);
            block.moves.push(row);
        }
        for name in std::mem::take(&mut self.names) {
            let bytes = name.function.len() + ROW_BYTES;
            block = self.turn(block, &mut room, bytes, usage, cut, &mut blocks);
            block.names.push(name);
        }
        for row in std::mem::take(&mut self.used).into_values() {
            block = self.turn(block, &mut room, ROW_BYTES, usage, cut, &mut blocks);
            block.kernels.push(row);
        }
        block.last = cut.last;
        block.reports = Some(self.reports);
        blocks.push(self.close(block));
        let tenants: u64 = usage.sessions.iter().map(|row| row.device_ns).sum();
        let keys = self.totals.device_ns;
        invariant!(
            I10,
            keys == tenants,
            "{keys} device nanoseconds of kernel keys, {tenants} of tenants"
        );
        let mut tenants = MoveTotals::default();
        moves.values().for_each(|moves| tenants.add(moves));
        let all = self.totals.moves;
        invariant!(
            I10,
            all == tenants,
            "{all:?} of memory in blocks, {tenants:?} of tenants"
        );
        blocks
    }

    /// Returns the block with room for this many more bytes: this one, or one after it.
    fn turn(
        &mut self,
        block: UsageBlock,
        room: &mut usize,
        bytes: usize,
        usage: &Usage,
        cut: &Cut,
        blocks: &mut Vec<UsageBlock>,
    ) -> UsageBlock {
        if let Some(left) = room.checked_sub(bytes) {
            *room = left;
            return block;
        }
        blocks.push(self.close(block));
        *room = (limits::RECORD_BLOCK_BYTES - HEAD_BYTES).saturating_sub(bytes);
        self.block(usage, cut)
    }

    fn block(&self, usage: &Usage, cut: &Cut) -> UsageBlock {
        UsageBlock {
            v: WIRE_VERSION,
            incarnation: self.incarnation,
            gpu: self.gpu,
            sms: self.sms,
            number: 0,
            first: None,
            at_ms: cut.at_ms,
            elapsed_ns: usage.elapsed_ns,
            active_ns: usage.active_ns,
            starved_ns: usage.starved_ns,
            last: false,
            totals: UseTotals::default(),
            reports: None,
            kernels: Vec::new(),
            memory: Vec::new(),
            moves: Vec::new(),
            names: Vec::new(),
        }
    }

    fn close(&mut self, mut block: UsageBlock) -> UsageBlock {
        self.number += 1;
        self.totals.add(&block.sum());
        block.number = self.number;
        block.totals = self.totals;
        block
    }

    /// Rows of the tenants' memory moves since the last block.
    fn moves_since(&self, moves: &BTreeMap<Tenant, MoveTotals>) -> Vec<TenantMoves> {
        let rows = moves.iter().filter_map(|(tenant, now)| {
            let before = self.moved.get(tenant).copied().unwrap_or_default();
            let moves = now.beyond(&before).filter(|news| !news.is_zero())?;
            let tenant = tenant.clone();
            Some(TenantMoves { tenant, moves })
        });
        rows.collect()
    }

    /// Rows of the memory that tenants held since the last block.
    fn memory(&mut self, usage: &Usage) -> Vec<MemoryUse> {
        let mut held = BTreeMap::<&Tenant, u64>::new();
        for row in &usage.sessions {
            *held.entry(&row.tenant).or_default() += row.byte_ms;
        }
        let mut rows = Vec::new();
        for (tenant, now) in held {
            let before = self.held.entry(tenant.clone()).or_default();
            if now > *before {
                rows.push(MemoryUse {
                    tenant: tenant.clone(),
                    byte_ms: now - *before,
                });
                *before = now;
            }
        }
        rows
    }
}
