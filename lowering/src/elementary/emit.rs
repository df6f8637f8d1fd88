//! Emission of functions as MLIR.

use tenon_ir::{Builder, IrError, Type, Value};

use super::expression::{Code, Function, Id, Node, Ty};

/// The function's value at a place.
pub(super) fn emit<'m>(function: &Function, at: Builder<'m>, arguments: &[Value<'m>]) -> Result<Value<'m>, IrError> {
    let mut emission = Emission { function, arguments, values: vec![None; function.nodes.len()] };
    emission.run(at, 0..function.nodes.len())?;
    emission.value(function.result)
}

struct Emission<'f, 'm> {
    function: &'f Function,
    arguments: &'f [Value<'m>],
    values: Vec<Option<Value<'m>>>,
}

fn mlir_type<'m>(at: Builder<'m>, ty: Ty) -> Type<'m> {
    let context = at.context();
    match ty {
        Ty::F32 => context.f32_type(),
        Ty::F64 => context.element_type(tenon_tensor::DType::F64),
        Ty::I32 => context.i32_type(),
        Ty::I64 => context.i64_type(),
        Ty::Bool => context.bool_type(),
    }
}

impl<'m> Emission<'_, 'm> {
    fn value(&self, id: Id) -> Result<Value<'m>, IrError> {
        let missing = || IrError::Build { name: "elementary function".to_owned(), diagnostics: Vec::new() };
        self.values.get(id).copied().flatten().ok_or_else(missing)
    }

    fn run(&mut self, at: Builder<'m>, range: std::ops::Range<Id>) -> Result<(), IrError> {
        let context = at.context();
        let mut index = range.start;
        while index < range.end {
            let (node, ty) = &self.function.nodes[index];
            let result = mlir_type(at, *ty);
            let constant = |value| at.op("arith.constant").attribute("value", value).results(&[result]).value();
            let made = match node {
                Node::Argument(argument) => self.arguments.get(*argument).copied(),
                // Infinities are exact in double, too.
                Node::Float(value) => Some(constant(context.float(f64::from(*value), result))?),
                Node::Double(value) => Some(constant(context.float(*value, result))?),
                Node::Int(value) => Some(constant(context.integer(i64::from(*value), result))?),
                Node::Long(value) => Some(constant(context.integer(*value, result))?),
                Node::Op(code, ids) => Some(self.operation(at, *code, ids, result)?),
                Node::Branch { condition, then, otherwise, yields } => {
                    let types: Vec<_> = yields[0].iter().map(|id| mlir_type(at, self.function.nodes[*id].1)).collect();
                    let condition = self.value(*condition)?;
                    let op = at.op("scf.if").operands(&[condition]).results(&types).regions(2).build()?;
                    for (region, (steps, list)) in [then, otherwise].into_iter().zip(yields).enumerate() {
                        let missing = || IrError::Build { name: "scf.if".to_owned(), diagnostics: Vec::new() };
                        let block = op.region(region).ok_or_else(missing)?.append_block(&[])?;
                        let inside = at.in_block(block);
                        self.run(inside, steps.clone())?;
                        let values = list.iter().map(|id| self.value(*id)).collect::<Result<Vec<_>, _>>()?;
                        inside.op("scf.yield").operands(&values).build()?;
                    }
                    for (offset, value) in op.results().into_iter().enumerate() {
                        self.values[otherwise.end + offset] = Some(value);
                    }
                    index = otherwise.end + types.len();
                    continue;
                }
                Node::Loop { count, start, body, next } => {
                    let (count, start) = (self.value(*count)?, self.value(*start)?);
                    let int = context.i32_type();
                    let number =
                        |n| at.op("arith.constant").attribute("value", context.integer(n, int)).results(&[int]).value();
                    let carried = mlir_type(at, self.function.nodes[body.start].1);
                    let operands = [number(0)?, count, number(1)?, start];
                    let op = at.op("scf.for").operands(&operands).results(&[carried]).regions(1).build()?;
                    let missing = || IrError::Build { name: "scf.for".to_owned(), diagnostics: Vec::new() };
                    let arguments = [(int, at.location()), (carried, at.location())];
                    let block = op.region(0).ok_or_else(missing)?.append_block(&arguments)?;
                    self.values[body.start] = block.arguments().get(1).copied();
                    let inside = at.in_block(block);
                    self.run(inside, body.start + 1..body.end)?;
                    inside.op("scf.yield").operands(&[self.value(*next)?]).build()?;
                    self.values[body.end] = op.result(0);
                    index = body.end + 1;
                    continue;
                }
                Node::Result | Node::Carried => self.values[index],
            };
            self.values[index] = made;
            index += 1;
        }
        Ok(())
    }

    fn operation(&self, at: Builder<'m>, code: Code, ids: &[Id; 3], result: Type<'m>) -> Result<Value<'m>, IrError> {
        let context = at.context();
        let compare = |name: &str, predicate: i64, count: usize| -> Result<Value<'m>, IrError> {
            let operands = ids[..count].iter().map(|id| self.value(*id)).collect::<Result<Vec<_>, _>>()?;
            at.op(name).attribute("predicate", context.i64(predicate)).operands(&operands).results(&[result]).value()
        };
        let (name, count) = match code {
            Code::Add => ("arith.addf", 2),
            Code::Sub => ("arith.subf", 2),
            Code::Mul => ("arith.mulf", 2),
            Code::Div => ("arith.divf", 2),
            Code::Fma => ("math.fma", 3),
            Code::Neg => ("arith.negf", 1),
            Code::Abs => ("math.absf", 1),
            Code::Sqrt => ("math.sqrt", 1),
            Code::CopySign => ("math.copysign", 2),
            Code::Max => ("arith.maximumf", 2),
            Code::Bits | Code::FromBits => ("arith.bitcast", 1),
            Code::ToFloat => ("arith.sitofp", 1),
            Code::IntAdd => ("arith.addi", 2),
            Code::IntSub => ("arith.subi", 2),
            Code::IntMul => ("arith.muli", 2),
            Code::IntMulHigh => {
                let operands = [self.value(ids[0])?, self.value(ids[1])?];
                let op = at.op("arith.mului_extended").operands(&operands).results(&[result, result]).build()?;
                let missing = || IrError::Build { name: "arith.mului_extended".to_owned(), diagnostics: Vec::new() };
                return op.result(1).ok_or_else(missing);
            }
            Code::IntRemainder => ("arith.remui", 2),
            Code::And => ("arith.andi", 2),
            Code::Or => ("arith.ori", 2),
            Code::Xor => ("arith.xori", 2),
            Code::ShiftLeft => ("arith.shli", 2),
            Code::ShiftRight => ("arith.shrsi", 2),
            Code::ShiftRightZero => ("arith.shrui", 2),
            Code::Widen => ("arith.extui", 1),
            Code::Narrow => ("arith.trunci", 1),
            Code::Select => ("arith.select", 3),
            // The predicates of `arith.cmpf` and `arith.cmpi`: olt, ole, oeq; slt, ult, eq.
            Code::Less => return compare("arith.cmpf", 4, 2),
            Code::LessEqual => return compare("arith.cmpf", 5, 2),
            Code::Equal => return compare("arith.cmpf", 1, 2),
            Code::IntLess => return compare("arith.cmpi", 2, 2),
            Code::IntBelow => return compare("arith.cmpi", 6, 2),
            Code::IntEqual => return compare("arith.cmpi", 0, 2),
        };
        let operands = ids[..count].iter().map(|id| self.value(*id)).collect::<Result<Vec<_>, _>>()?;
        at.op(name).operands(&operands).results(&[result]).value()
    }
}
