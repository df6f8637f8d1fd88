//! Operations of the dialect, read.

use tenon_ir::{Block, Op, Value};

use crate::{FlowError, FlowErrorKind, Schedule};

/// Any operation with regions.
#[derive(Debug, Clone)]
pub enum Flow<'m> {
    /// A branch.
    If(If<'m>),
    /// A loop.
    Loop(Loop<'m>),
    /// A loop over slices.
    Scan(Scan<'m>),
}

/// `flow.if`.
#[derive(Debug, Clone)]
pub struct If<'m> {
    /// The operation.
    pub op: Op<'m>,
    /// An i1 scalar.
    pub condition: Value<'m>,
    /// Taken where the condition is true.
    pub then_body: Block<'m>,
    /// Taken where it is false.
    pub else_body: Block<'m>,
    /// What the recipe decided.
    pub schedule: Schedule,
}

/// `flow.loop`.
#[derive(Debug, Clone)]
pub struct Loop<'m> {
    /// The operation.
    pub op: Op<'m>,
    /// Largest number of iterations, an i64 scalar.
    pub count: Option<Value<'m>>,
    /// Whether the first iteration runs, an i1 scalar; the body then yields a condition too.
    pub condition: Option<Value<'m>>,
    /// Values that the first iteration takes.
    pub carried: Vec<Value<'m>>,
    /// Arguments: the iteration number, the carried values.
    pub body: Block<'m>,
    /// Bound on the iterations that leave scan outputs.
    pub capacity: Option<u64>,
    /// What the recipe decided.
    pub schedule: Schedule,
}

/// `flow.scan`.
#[derive(Debug, Clone)]
pub struct Scan<'m> {
    /// The operation.
    pub op: Op<'m>,
    /// State that the first iteration takes.
    pub state: Vec<Value<'m>>,
    /// Tensors that are taken apart.
    pub scanned: Vec<Value<'m>>,
    /// Arguments: the state, one slice of each scanned tensor.
    pub body: Block<'m>,
    /// Scanned dimension of each input, from the front.
    pub input_axes: Vec<i64>,
    /// Whether each input runs from its end.
    pub input_reversed: Vec<bool>,
    /// Scanned dimension of each scan output, from the front.
    pub output_axes: Vec<i64>,
    /// Whether each scan output is filled from its end.
    pub output_reversed: Vec<bool>,
    /// What the recipe decided.
    pub schedule: Schedule,
}

impl<'m> Flow<'m> {
    /// Reads an operation; `None` if it is none of the dialect's with regions.
    pub fn read(op: Op<'m>) -> Option<Result<Self, FlowError>> {
        let located = |error: FlowError| FlowError { nodes: op.location().names(), ..error };
        if op.is("flow.if") {
            return Some(If::read(op).map(Flow::If).map_err(located));
        }
        if op.is("flow.loop") {
            return Some(Loop::read(op).map(Flow::Loop).map_err(located));
        }
        op.is("flow.scan").then(|| Scan::read(op).map(Flow::Scan).map_err(located))
    }

    /// The operation.
    pub fn op(&self) -> Op<'m> {
        match self {
            Flow::If(flow) => flow.op,
            Flow::Loop(flow) => flow.op,
            Flow::Scan(flow) => flow.op,
        }
    }

    /// Its regions' blocks.
    pub fn bodies(&self) -> Vec<Block<'m>> {
        match self {
            Flow::If(flow) => vec![flow.then_body, flow.else_body],
            Flow::Loop(flow) => vec![flow.body],
            Flow::Scan(flow) => vec![flow.body],
        }
    }

    /// What the recipe decided.
    pub fn schedule(&self) -> Schedule {
        match self {
            Flow::If(flow) => flow.schedule,
            Flow::Loop(flow) => flow.schedule,
            Flow::Scan(flow) => flow.schedule,
        }
    }

    /// Values from around the operation that its regions use, each once, in order of first use.
    pub fn captured(&self) -> Vec<Value<'m>> {
        let inside = self.op().walk();
        let mut captured: Vec<Value<'m>> = Vec::new();
        for op in &inside[1..] {
            for value in op.operands() {
                let home = match value.defining_op() {
                    Some((owner, _)) => Some(owner),
                    None => value.block_argument().and_then(|(block, _)| block.parent_op()),
                };
                let own = home.is_some_and(|home| {
                    let is_argument = value.block_argument().is_some();
                    inside[1..].contains(&home) || (is_argument && home == self.op())
                });
                if !own && !captured.contains(&value) {
                    captured.push(value);
                }
            }
        }
        captured
    }
}

/// What a body yields, by its terminator.
pub(crate) fn yielded(body: Block<'_>) -> Option<Vec<Value<'_>>> {
    body.terminator().filter(|op| op.is("flow.yield")).map(Op::operands)
}

fn body<'m>(op: Op<'m>, region: usize) -> Result<Block<'m>, FlowError> {
    let blocks = op.region(region).map(|region| region.blocks()).unwrap_or_default();
    match blocks.as_slice() {
        [block] => Ok(*block),
        _ => Err(FlowError::new(FlowErrorKind::Entry, &op.name(), "a region must be one block")),
    }
}

/// Operands by the groups of `operandSegmentSizes`.
fn segments<'m, const N: usize>(op: Op<'m>) -> Result<[Vec<Value<'m>>; N], FlowError> {
    let wrong =
        || FlowError::new(FlowErrorKind::Attribute, &op.name(), "`operandSegmentSizes` does not divide the operands");
    let sizes = op.attribute("operandSegmentSizes").and_then(|sizes| sizes.as_i32_array()).ok_or_else(wrong)?;
    let mut operands = op.operands().into_iter();
    let mut groups = std::array::from_fn(|_| Vec::new());
    if sizes.len() != N {
        return Err(wrong());
    }
    for (group, size) in groups.iter_mut().zip(sizes) {
        let size = usize::try_from(size).map_err(|_| wrong())?;
        group.extend(operands.by_ref().take(size));
        if group.len() != size {
            return Err(wrong());
        }
    }
    if operands.next().is_some() { Err(wrong()) } else { Ok(groups) }
}

impl<'m> If<'m> {
    fn read(op: Op<'m>) -> Result<Self, FlowError> {
        let condition =
            op.operand(0).ok_or_else(|| FlowError::new(FlowErrorKind::Control, &op.name(), "has no condition"))?;
        Ok(If { op, condition, then_body: body(op, 0)?, else_body: body(op, 1)?, schedule: Schedule::read(op)? })
    }
}

impl<'m> Loop<'m> {
    fn read(op: Op<'m>) -> Result<Self, FlowError> {
        let [count, condition, carried] = segments(op)?;
        let capacity = match op.attribute("capacity") {
            None => None,
            Some(attribute) => {
                let value = attribute.as_integer().and_then(|value| u64::try_from(value).ok());
                Some(value.ok_or_else(|| {
                    FlowError::new(FlowErrorKind::Attribute, &op.name(), "`capacity` must not be negative")
                })?)
            }
        };
        Ok(Loop {
            op,
            count: count.first().copied(),
            condition: condition.first().copied(),
            carried,
            body: body(op, 0)?,
            capacity,
            schedule: Schedule::read(op)?,
        })
    }

    /// Condition that the body yields, where the loop has one.
    pub fn next_condition(&self) -> Option<Value<'m>> {
        self.condition?;
        yielded(self.body)?.first().copied()
    }

    /// Carried values that the body yields.
    pub fn next_carried(&self) -> Vec<Value<'m>> {
        self.after_condition().into_iter().take(self.carried.len()).collect()
    }

    /// Elements of the scan outputs that the body yields.
    pub fn elements(&self) -> Vec<Value<'m>> {
        self.after_condition().into_iter().skip(self.carried.len()).collect()
    }

    fn after_condition(&self) -> Vec<Value<'m>> {
        yielded(self.body).unwrap_or_default().into_iter().skip(usize::from(self.condition.is_some())).collect()
    }

    /// Scan outputs: results after the carried values.
    pub fn scan_outputs(&self) -> Vec<Value<'m>> {
        self.op.results().into_iter().skip(self.carried.len()).collect()
    }
}

impl<'m> Scan<'m> {
    fn read(op: Op<'m>) -> Result<Self, FlowError> {
        let [state, scanned] = segments(op)?;
        let wrong = |name: &str| {
            FlowError::new(FlowErrorKind::Attribute, &op.name(), format!("`{name}` must be an array of numbers"))
        };
        let numbers = |name: &str| op.attribute(name).and_then(|list| list.as_i64_array()).ok_or_else(|| wrong(name));
        let directions = |name: &str| -> Result<Vec<bool>, FlowError> {
            let message = || {
                FlowError::new(
                    FlowErrorKind::Attribute,
                    &op.name(),
                    format!("`{name}` must hold 0 (forward) or 1 (reverse)"),
                )
            };
            numbers(name)?
                .into_iter()
                .map(|value| u8::try_from(value).ok().filter(|v| *v < 2).map(|v| v == 1).ok_or_else(message))
                .collect()
        };
        Ok(Scan {
            op,
            state,
            scanned,
            body: body(op, 0)?,
            input_axes: numbers("input_axes")?,
            input_reversed: directions("input_directions")?,
            output_axes: numbers("output_axes")?,
            output_reversed: directions("output_directions")?,
            schedule: Schedule::read(op)?,
        })
    }

    /// State that the body yields.
    pub fn next_state(&self) -> Vec<Value<'m>> {
        yielded(self.body).unwrap_or_default().into_iter().take(self.state.len()).collect()
    }

    /// Slices of the scan outputs that the body yields.
    pub fn slices(&self) -> Vec<Value<'m>> {
        yielded(self.body).unwrap_or_default().into_iter().skip(self.state.len()).collect()
    }
}
