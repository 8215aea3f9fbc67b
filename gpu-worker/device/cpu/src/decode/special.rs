//! Special registers such as `%tid.x`.

use super::form::{Bank, Constant, Lanemask, Op, Reserved, Slot, Special};
use super::operand::Body;
use super::vector;
use crate::error::BuildError;
use ptx::FunctionKind;

/// Source of a special register's value.
enum Origin {
    /// The warp's place.
    Place(Special),
    /// A value that stays the same for a launch.
    Launch(Constant),
    Number(u64),
    Lanemask(Lanemask),
    /// The clock: true for nanoseconds, true for its upper half.
    Clock(bool, bool),
}

/// Registers of three axes; a fourth is always zero, or one for sizes.
fn axes(base: &str, axis: u8) -> Option<Origin> {
    Some(match base {
        "%tid" if axis < 3 => Origin::Place(Special::Tid(axis)),
        // Every block is a cluster of its own.
        "%ctaid" | "%clusterid" if axis < 3 => Origin::Place(Special::Ctaid(axis)),
        "%ntid" if axis < 3 => Origin::Launch(Constant::Ntid(axis)),
        "%nctaid" | "%nclusterid" if axis < 3 => Origin::Launch(Constant::Nctaid(axis)),
        "%cluster_nctaid" if axis < 3 => Origin::Number(1),
        "%cluster_ctaid" => Origin::Number(0),
        "%tid" | "%ctaid" | "%clusterid" => Origin::Number(0),
        "%ntid" | "%nctaid" | "%nclusterid" | "%cluster_nctaid" => Origin::Number(1),
        _ => return None,
    })
}

/// True if a name is a prefix and a number below `count`.
fn numbered(name: &str, prefix: &str, count: u32) -> bool {
    let number = name.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
    number.is_some_and(|number: u32| number < count)
}

fn reserved(what: Reserved) -> Origin {
    Origin::Launch(Constant::ReservedShared(what))
}

fn origin(name: &str) -> Option<Origin> {
    if let Some((base, axis)) = name.split_once('.') {
        return axes(base, vector::element(axis)?);
    }
    Some(match name {
        "%warpid" => Origin::Place(Special::WarpId),
        "%laneid" => Origin::Launch(Constant::Lane),
        "%nwarpid" => Origin::Number(32),
        "%nsmid" | "%cluster_nctarank" => Origin::Number(1),
        "%smid" | "%gridid" | "%cluster_ctarank" | "%current_graph_exec" => Origin::Number(0),
        "%dynamic_smem_size" => Origin::Launch(Constant::SharedSize { total: false }),
        "%total_smem_size" | "%aggr_smem_size" => {
            Origin::Launch(Constant::SharedSize { total: true })
        }
        "%lanemask_eq" => Origin::Lanemask(Lanemask::Eq),
        "%lanemask_le" => Origin::Lanemask(Lanemask::Le),
        "%lanemask_lt" => Origin::Lanemask(Lanemask::Lt),
        "%lanemask_ge" => Origin::Lanemask(Lanemask::Ge),
        "%lanemask_gt" => Origin::Lanemask(Lanemask::Gt),
        "%clock" | "%clock64" => Origin::Clock(false, false),
        "%clock_hi" => Origin::Clock(false, true),
        "%globaltimer" | "%globaltimer_lo" => Origin::Clock(true, false),
        "%globaltimer_hi" => Origin::Clock(true, true),
        "%reserved_smem_offset_begin" => reserved(Reserved::Begin),
        "%reserved_smem_offset_end" => reserved(Reserved::End),
        "%reserved_smem_offset_cap" => reserved(Reserved::Size),
        "%reserved_smem_offset_0" => reserved(Reserved::Part(0)),
        "%reserved_smem_offset_1" => reserved(Reserved::Part(1)),
        _ if numbered(name, "%envreg", 32) || numbered(name, "%pm", 8) => Origin::Number(0),
        _ => {
            let counter = name.strip_suffix("_64")?;
            return numbered(counter, "%pm", 8).then_some(Origin::Number(0));
        }
    })
}

impl Body<'_, '_> {
    /// The register of an entry that is filled from a warp's place.
    fn place_register(&mut self, special: Special) -> Slot {
        let slot = self.uses.special(special).unwrap_or_else(|| {
            let slot = self.registers.add(Bank::Word);
            self.uses.hold(special, slot);
            slot
        });
        self.registers.accesses().read(slot);
        slot
    }

    /// A special register's value in a bank; `None` if there is no such register.
    pub(super) fn special(&mut self, name: &str, bank: Bank) -> Result<Option<Slot>, BuildError> {
        let Some(origin) = origin(name) else {
            return Ok(None);
        };
        let word = match origin {
            Origin::Number(number) => return Ok(Some(self.bits(bank, number))),
            Origin::Launch(constant) => return Ok(Some(self.constant(bank, constant))),
            Origin::Clock(nanoseconds, upper) => {
                return Ok(Some(self.clock(bank, nanoseconds, upper)));
            }
            Origin::Place(special) if self.kind == FunctionKind::Func => {
                // A function is called from many places, so it reads the value itself.
                let temp = self.fresh(Bank::Word);
                self.emit(Op::Place(special), &[temp]);
                temp
            }
            Origin::Place(special) => self.place_register(special),
            Origin::Lanemask(which) => {
                let temp = self.fresh(Bank::Word);
                self.emit(Op::Lanemask(which), &[temp]);
                temp
            }
        };
        if bank == Bank::Double {
            let temp = self.fresh(Bank::Double);
            let widen = Op::widening();
            self.emit(widen, &[temp, word]);
            return Ok(Some(temp));
        }
        Ok(Some(word))
    }

    fn clock(&mut self, bank: Bank, nanoseconds: bool, upper: bool) -> Slot {
        let now = self.fresh(Bank::Double);
        self.emit(Op::Clock(nanoseconds), &[now]);
        if bank == Bank::Double && !upper {
            return now;
        }
        let (low, high) = (self.fresh(Bank::Word), self.fresh(Bank::Word));
        self.emit(Op::Unpack64, &[low, high, now]);
        if bank == Bank::Word {
            return if upper { high } else { low };
        }
        let temp = self.fresh(Bank::Double);
        let widen = Op::widening();
        self.emit(widen, &[temp, high]);
        temp
    }
}
