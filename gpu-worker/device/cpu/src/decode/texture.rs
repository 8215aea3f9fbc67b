//! Textures and surfaces, by their objects' handles.

use super::form::{Asked, Bank, Bounds, Geometry, Given, Logic, Op, Sample, Slot, Surface};
use super::operand::{Body, Named};
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Address, Instruction, Operand, Scalar};

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn textures(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        match parts.head {
            "tex" => self.lookup(i, parts)?,
            "tld4" => self.gather(i, parts)?,
            "suld" | "sust" => self.surface(i, parts)?,
            "txq" | "suq" => self.query(i, parts)?,
            "istypep" => self.is_type(i, parts)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn no_form<T>(&self, i: &Instruction<'a>) -> Result<T> {
        self.fail(format!("there is no `{}`", i.opcode))
    }

    /// The object that an address names by its handle.
    fn object(&mut self, address: Address<'a>) -> Result<Slot> {
        let found = match address.base {
            Some(name) if address.offset == 0 && address.index.is_none() => self.find(name),
            _ => None,
        };
        match found {
            Some(Named::Register(Bank::Double, slot)) => Ok(slot),
            _ => self.fail(
                "textures and surfaces that are named are not supported: \
                 a register with an object's handle is wanted here",
            ),
        }
    }

    /// An object and the elements of the coordinates that follow it.
    fn coordinates(&mut self, operand: Option<&Operand<'a>>) -> Result<(Slot, Vec<Operand<'a>>)> {
        let Some(Operand::Coordinates(address, list)) = operand else {
            return self.fail("an object and coordinates in brackets are wanted here");
        };
        let [coordinates] = list.as_slice() else {
            return self.fail("samplers apart from their textures are not supported");
        };
        let elements = self.elements(coordinates);
        Ok((self.object(*address)?, elements))
    }

    /// The elements of a list, a vector register, or a single register.
    fn elements(&mut self, operand: &Operand<'a>) -> Vec<Operand<'a>> {
        match operand {
            Operand::Vector(list) => list.clone(),
            Operand::Name(name) => match self.declared(name) {
                Some(Named::Vector(_, _, count)) => {
                    (0..count).map(|at| Operand::Element(name, at)).collect()
                }
                _ => vec![operand.clone()],
            },
            _ => vec![operand.clone()],
        }
    }

    /// Exactly `count` sources; a fourth element after three is unused and may be present.
    fn exact_sources(
        &mut self,
        list: &[Operand<'a>],
        count: usize,
        ty: Scalar,
    ) -> Result<Vec<Slot>> {
        if list.len() != count && !(count == 3 && list.len() == 4) {
            return self.fail(format!(
                "{count} elements are wanted here, not {}",
                list.len()
            ));
        }
        self.sources(&list[..count], ty)
    }

    fn geometry(&self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<Geometry> {
        let found = parts.pick(|part| {
            let (dimensions, layered) = match part {
                "1d" => (1, false),
                "2d" => (2, false),
                "3d" => (3, false),
                "a1d" => (1, true),
                "a2d" => (2, true),
                "cube" | "acube" | "2dms" | "a2dms" => (0, false),
                _ => return None,
            };
            Some(Geometry {
                dimensions,
                layered,
            })
        });
        match found {
            Some(geometry) if geometry.dimensions > 0 => Ok(geometry),
            Some(_) => self.fail(format!(
                "`{}` is not supported: this device has no cube maps and no multiple samples",
                i.opcode
            )),
            None => self.no_form(i),
        }
    }

    /// Layer and coordinates.
    fn place(&mut self, geometry: Geometry, list: &[Operand<'a>], ty: Scalar) -> Result<Vec<Slot>> {
        let count = geometry.registers();
        if geometry.layered && list.len() >= count {
            let layer = self.source(&list[0], Scalar::U32)?;
            // The last of four elements is unused.
            let spare = usize::from(count == 3 && list.len() == 4);
            let rest = &list[1..list.len() - spare];
            let mut slots = vec![layer];
            slots.extend(self.exact_sources(rest, count - 1, ty)?);
            return Ok(slots);
        }
        self.exact_sources(list, count, ty)
    }

    fn lookup(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.take("base");
        let level = parts.take("level");
        let grad = parts.take("grad");
        let geometry = self.geometry(i, parts)?;
        let pairs = parts.take("v2");
        if !pairs && !parts.take("v4") {
            return self.no_form(i);
        }
        let (ty, by) = (self.ty(parts)?, self.ty(parts)?);
        let given = match ty {
            Scalar::F16x2 if pairs => Given::Pairs,
            Scalar::F16 if !pairs => Given::Halves,
            Scalar::U32 | Scalar::S32 | Scalar::F32 if !pairs => Given::Words,
            _ => return self.no_form(i),
        };
        if !matches!(by, Scalar::S32 | Scalar::F32) {
            return self.no_form(i);
        }
        // There is one level only, so the requested level is decoded and ignored.
        let more = i.operands.get(2..).unwrap_or_default();
        let levels = usize::from(level) + 2 * usize::from(grad);
        if more.len() < levels {
            return self.fail(format!("`{}` takes more operands", i.opcode));
        }
        for operand in &more[..levels] {
            let list = self.elements(operand);
            let ty = if grad { Scalar::F32 } else { by };
            let wanted = &list[..list.len().min(3)];
            self.sources(wanted, ty)?;
        }
        let sample = Sample {
            geometry,
            given,
            integers: by == Scalar::S32,
            gather: None,
            offsets: false,
        };
        self.sample(i, sample, (ty, by), &more[levels..])
    }

    fn gather(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let channel = parts.pick(|part| ["r", "g", "b", "a"].iter().position(|it| *it == part));
        let geometry = self.geometry(i, parts)?;
        let (Some(channel), true, 2) = (channel, parts.take("v4"), geometry.dimensions) else {
            return self.no_form(i);
        };
        let (ty, by) = (self.ty(parts)?, self.ty(parts)?);
        if !matches!(ty, Scalar::U32 | Scalar::S32 | Scalar::F32) || by != Scalar::F32 {
            return self.no_form(i);
        }
        let sample = Sample {
            geometry,
            given: Given::Words,
            integers: false,
            gather: Some(channel as u8),
            offsets: false,
        };
        let more = i.operands.get(2..).unwrap_or_default();
        self.sample(i, sample, (ty, by), more)
    }

    /// Decodes a lookup after its modifiers; `more` are the operands behind the coordinates.
    fn sample(
        &mut self,
        i: &Instruction<'a>,
        sample: Sample,
        (ty, by): (Scalar, Scalar),
        more: &[Operand<'a>],
    ) -> Result<()> {
        let (object, list) = self.coordinates(i.operands.get(1))?;
        let place = self.place(sample.geometry, &list, by)?;
        let offsets = match more {
            [] => Vec::new(),
            [one] => {
                let list = self.elements(one);
                let alone = !matches!(one, Operand::Vector(_)) && list.len() == 1;
                if alone {
                    return self.fail("comparisons of depths are not supported");
                }
                self.exact_sources(&list, usize::from(sample.geometry.dimensions), Scalar::S32)?
            }
            _ => return self.fail("comparisons of depths are not supported"),
        };
        let sample = Sample {
            offsets: !offsets.is_empty(),
            ..sample
        };
        let (results, resident) = match i.operands.first() {
            Some(Operand::VectorPair(list, held)) => (list.clone(), Some(*held)),
            Some(Operand::Pair(name, held)) => (self.elements(&Operand::Name(name)), Some(*held)),
            Some(one) => (self.elements(one), None),
            None => return self.no_form(i),
        };
        let count = sample.given.registers();
        if results.len() != count {
            return self.fail(format!("`{}` takes {count} registers", i.opcode));
        }
        let results = self.targets(&results, ty)?;
        let held = match resident {
            Some(name) => Some(self.target(&Operand::Name(name), Scalar::Pred)?),
            None => None,
        };
        let at = self.pooled(results.into_iter().chain(place).chain(offsets));
        self.emit_pooled(Op::Sample(sample), &[object], 0, at);
        // A texture is always resident.
        if let Some(p) = held {
            self.emit(Op::Logic(Logic::Xor, false, true), &[p, p, p]);
        }
        Ok(())
    }

    fn surface(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let write = parts.head == "sust";
        let formatted = write && parts.take("p");
        if !formatted && !parts.take("b") {
            return self.no_form(i);
        }
        parts.ignore(&["ca", "cg", "cs", "cv", "wb", "wt"]);
        let geometry = self.geometry(i, parts)?;
        let lanes = match (parts.take("v2"), parts.take("v4")) {
            (true, _) => 2,
            (_, true) => 4,
            _ => 1,
        };
        let ty = self.ty(parts)?;
        let fits = match ty {
            Scalar::B32 => true,
            Scalar::U32 | Scalar::S32 | Scalar::F32 => formatted,
            Scalar::B8 | Scalar::B16 | Scalar::B64 => !formatted,
            _ => false,
        };
        let bounds = parts.pick(|part| {
            Some(match part {
                "trap" => Bounds::Trap,
                "clamp" => Bounds::Clamp,
                "zero" => Bounds::Zero,
                _ => return None,
            })
        });
        let (Some(bounds), true) = (bounds, fits && ty.size() * u64::from(lanes) <= 16) else {
            return self.no_form(i);
        };
        let surface = Surface {
            geometry,
            ty,
            lanes,
            bounds,
            write,
            formatted,
        };
        let operands = self.exactly(i, 2)?;
        let (place, values) = if write { (0, 1) } else { (1, 0) };
        let (object, list) = self.coordinates(operands.get(place))?;
        let place = self.place(geometry, &list, Scalar::S32)?;
        let values = self.elements(&operands[values]);
        if values.len() != usize::from(lanes) {
            return self.fail(format!("`{}` takes {lanes} registers", i.opcode));
        }
        let values = self.moved(&values, ty, write)?;
        let at = self.pooled(place.into_iter().chain(values));
        self.emit_pooled(Op::Surface(surface), &[object], 0, at);
        Ok(())
    }

    fn query(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let surface = parts.head == "suq";
        let level = !surface && parts.take("level");
        let asked = parts.pick(|part| {
            Some(match part {
                "width" => Asked::Width,
                "height" => Asked::Height,
                "depth" => Asked::Depth,
                _ if level => return None,
                "array_size" => Asked::Layers,
                "channel_data_type" => Asked::ChannelType,
                "channel_order" => Asked::ChannelOrder,
                "memory_layout" if surface => Asked::Linear,
                _ if surface => return None,
                "normalized_coords" => Asked::Normalized,
                "num_mipmap_levels" | "num_samples" => Asked::One,
                "force_unnormalized_coords" => Asked::Never,
                "filter_mode" => Asked::Filter,
                "addr_mode_0" => Asked::Mode(0),
                "addr_mode_1" => Asked::Mode(1),
                "addr_mode_2" => Asked::Mode(2),
                _ => return None,
            })
        });
        let (Some(asked), Scalar::B32) = (asked, self.ty(parts)?) else {
            return self.no_form(i);
        };
        let operands = self.exactly(i, if level { 3 } else { 2 })?;
        let address = self.address(operands.get(1))?;
        let object = self.object(address)?;
        if let Some(level) = operands.get(2) {
            self.source(level, Scalar::S32)?;
        }
        let d = self.target(&operands[0], Scalar::B32)?;
        self.emit(Op::Ask(asked, surface), &[d, object]);
        Ok(())
    }

    fn is_type(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let kind = parts.pick(|part| {
            Some(match part {
                "texref" => Some(false),
                "surfref" => Some(true),
                // An object includes its sampler.
                "samplerref" => None,
                _ => return None,
            })
        });
        let Some(surface) = kind else {
            return self.no_form(i);
        };
        let operands = self.exactly(i, 2)?;
        let a = self.source(&operands[1], Scalar::U64)?;
        let p = self.target(&operands[0], Scalar::Pred)?;
        self.emit(Op::IsObject(surface), &[p, a]);
        Ok(())
    }
}
