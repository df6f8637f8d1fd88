//! Branches and loops.
//!
//! A region sees the values around it; those that it uses are put into its frame before it runs. Scan outputs whose first dimension is
//! larger than the number of iterations hold zeros behind what the iterations gave.

use tenon_flow_dialect::{Flow, If, Loop, Scan};
use tenon_graph_dialect::TensorType;
use tenon_ir::{Block, Value};
use tenon_tensor::{DType, Tensor};

use crate::array::{Array, Data, Form, map_data};
use crate::interpreter::{Frame, Interpreter, MAX_DEPTH};
use crate::{Mode, ReferenceError, ReferenceErrorKind};

/// Most iterations of one loop.
const MAX_ITERATIONS: u64 = 1 << 24;

fn structure(flow: &Flow<'_>, message: impl Into<String>) -> ReferenceError {
    ReferenceError::new(ReferenceErrorKind::Structure, &flow.op().name(), message)
}

/// The only element of a value, as a number.
fn number(flow: &Flow<'_>, array: &Array) -> Result<i64, ReferenceError> {
    match array.data.as_ref() {
        Data::Int(elements) if elements.len() == 1 => Ok(elements[0]),
        _ => Err(structure(flow, "a condition or trip count must be one integer or truth value")),
    }
}

impl<'m> Interpreter<'m, '_> {
    /// Runs an operation of control flow.
    pub(crate) fn flow(
        &mut self,
        flow: &Flow<'m>,
        operands: &[Array],
        frame: &mut Frame,
        depth: usize,
    ) -> Result<Vec<Array>, ReferenceError> {
        if depth >= MAX_DEPTH {
            return Err(structure(flow, "control flow nests too deep"));
        }
        let captured = self.captured(flow, frame)?;
        let mut run = |interpreter: &mut Self, body: Block<'m>, arguments: Vec<Array>| {
            let frame = Frame { captured: captured.clone(), ..Frame::default() };
            interpreter.block(body, frame, arguments, "flow.yield", depth + 1)
        };
        match flow {
            Flow::If(If { then_body, else_body, .. }) => {
                let condition = operands.first().ok_or_else(|| structure(flow, "has no condition"))?;
                let body = if number(flow, condition)? != 0 { then_body } else { else_body };
                run(self, *body, Vec::new())
            }
            Flow::Loop(repeat) => self.repeat(flow, repeat, operands, &mut run),
            Flow::Scan(scan) => self.scan(flow, scan, operands, &mut run),
        }
    }

    /// Values around an operation that its regions use, taken once for each use.
    fn captured(
        &mut self,
        flow: &Flow<'m>,
        frame: &mut Frame,
    ) -> Result<std::collections::HashMap<usize, Array>, ReferenceError> {
        let mut captured = std::collections::HashMap::new();
        for value in flow.captured() {
            let uses = value.users().into_iter().filter(|(user, _)| *user != flow.op() && flow.op().contains(*user));
            for _ in uses {
                let array =
                    self.take(frame, value).ok_or_else(|| structure(flow, "a captured value has no value here"))?;
                captured.insert(value.key(), array);
            }
        }
        Ok(captured)
    }

    fn repeat(
        &mut self,
        flow: &Flow<'m>,
        repeat: &Loop<'m>,
        operands: &[Array],
        run: &mut dyn FnMut(&mut Self, Block<'m>, Vec<Array>) -> Result<Vec<Array>, ReferenceError>,
    ) -> Result<Vec<Array>, ReferenceError> {
        let mut operands = operands.iter();
        let mut control = |present: bool| -> Result<Option<i64>, ReferenceError> {
            if !present {
                return Ok(None);
            }
            let array = operands.next().ok_or_else(|| structure(flow, "an operand is missing"))?;
            number(flow, array).map(Some)
        };
        let count = control(repeat.count.is_some())?;
        let mut goes_on = control(repeat.condition.is_some())?.is_none_or(|condition| condition != 0);
        let mut carried: Vec<Array> = operands.cloned().collect();
        let outputs = repeat.scan_outputs();
        let mut elements: Vec<Vec<Array>> = vec![Vec::new(); outputs.len()];
        let mut iteration = 0;
        while goes_on && count.is_none_or(|count| iteration < count) {
            if iteration as u64 >= repeat.capacity.unwrap_or(MAX_ITERATIONS) {
                let message = format!("the loop runs more than {iteration} times");
                return Err(ReferenceError::new(ReferenceErrorKind::Undefined, "flow.loop", message));
            }
            let mut arguments = vec![scalar(iteration, self.mode)?];
            arguments.append(&mut carried);
            let mut yielded = run(self, repeat.body, arguments)?.into_iter();
            if repeat.condition.is_some() {
                let condition = yielded.next().ok_or_else(|| structure(flow, "yields no condition"))?;
                goes_on = number(flow, &condition)? != 0;
            }
            carried = yielded.by_ref().take(repeat.carried.len()).collect();
            elements.iter_mut().zip(yielded).for_each(|(list, element)| list.push(element));
            iteration += 1;
        }
        for (output, list) in outputs.into_iter().zip(&elements) {
            carried.push(stack(flow, output, list, 0, self.mode)?);
        }
        Ok(carried)
    }

    fn scan(
        &mut self,
        flow: &Flow<'m>,
        scan: &Scan<'m>,
        operands: &[Array],
        run: &mut dyn FnMut(&mut Self, Block<'m>, Vec<Array>) -> Result<Vec<Array>, ReferenceError>,
    ) -> Result<Vec<Array>, ReferenceError> {
        let states = scan.state.len().min(operands.len());
        let (state, scanned) = operands.split_at(states);
        let mut state = state.to_vec();
        let axes: Vec<usize> =
            scan.input_axes.iter().map(|axis| usize::try_from(*axis).unwrap_or(usize::MAX)).collect();
        let length = scanned.first().zip(axes.first()).and_then(|(array, axis)| array.shape.get(*axis).copied());
        let length = length.ok_or_else(|| structure(flow, "scans no tensor"))?;
        let outputs: Vec<Value<'m>> = flow.op().results().into_iter().skip(states).collect();
        let mut elements: Vec<Vec<Array>> = vec![Vec::new(); outputs.len()];
        for step in 0..length {
            let mut arguments = std::mem::take(&mut state);
            for ((array, axis), reversed) in scanned.iter().zip(&axes).zip(&scan.input_reversed) {
                if array.shape.get(*axis) != Some(&length) {
                    return Err(structure(flow, "scanned dimensions differ"));
                }
                arguments.push(slice(array, *axis, if *reversed { length - 1 - step } else { step }));
            }
            let mut yielded = run(self, scan.body, arguments)?.into_iter();
            state = yielded.by_ref().take(states).collect();
            elements.iter_mut().zip(yielded).for_each(|(list, element)| list.push(element));
        }
        for (index, (output, mut list)) in outputs.into_iter().zip(elements).enumerate() {
            if scan.output_reversed.get(index) == Some(&true) {
                list.reverse();
            }
            let axis = scan.output_axes.get(index).and_then(|axis| usize::try_from(*axis).ok()).unwrap_or(0);
            state.push(stack(flow, output, &list, axis, self.mode)?);
        }
        Ok(state)
    }
}

fn scalar(value: i64, mode: Mode) -> Result<Array, ReferenceError> {
    Array::read(&Tensor::from_i64(Vec::new(), &[value])?, DType::I64, mode)
}

/// The part at one place along an axis, without that dimension.
fn slice(array: &Array, axis: usize, at: usize) -> Array {
    let length = array.shape[axis];
    let inner: usize = array.shape[axis + 1..].iter().product();
    let outer: usize = array.shape[..axis].iter().product();
    let starts = (0..outer).map(|row| (row * length + at) * inner);
    let data = map_data!(array.data.as_ref(), elements => {
        starts.flat_map(|start| elements[start..start + inner].iter().copied()).collect()
    });
    let mut shape = array.shape.clone();
    shape.remove(axis);
    Array { dtype: array.dtype, shape, data: data.into() }
}

/// Elements along a new axis of a value of the result's type; zeros behind them.
fn stack(
    flow: &Flow<'_>,
    result: Value<'_>,
    elements: &[Array],
    axis: usize,
    mode: Mode,
) -> Result<Array, ReferenceError> {
    let form = Form::read(&flow.op().name(), &TensorType::read(result.ty())?, mode)?;
    let length = form.shape.get(axis).copied().ok_or_else(|| structure(flow, "a scan output has no such dimension"))?;
    let mut slice = form.shape.clone();
    slice.remove(axis);
    if elements.len() > length || elements.iter().any(|element| element.shape != slice) {
        return Err(structure(flow, format!("{} elements do not fit a scan output {:?}", elements.len(), form.shape)));
    }
    let bytes = form.shape.iter().product::<usize>() * form.dtype.size();
    let zeros = Tensor::new(form.dtype, form.shape.clone(), vec![0; bytes])?;
    let zeros = Array::read(&zeros, form.dtype, mode)?;
    let inner: usize = slice[axis..].iter().product();
    let outer: usize = slice[..axis].iter().product();
    fn place<T: Copy>(whole: &mut [T], part: &[T], inner: usize, start: impl Fn(usize) -> usize) {
        if inner > 0 {
            for (row, run) in part.chunks_exact(inner).enumerate() {
                whole[start(row)..start(row) + inner].copy_from_slice(run);
            }
        }
    }
    let mut whole = std::sync::Arc::try_unwrap(zeros.data).map_err(|_| structure(flow, "a new value is shared"))?;
    debug_assert!(outer * inner * length == form.shape.iter().product::<usize>());
    for (step, element) in elements.iter().enumerate() {
        let start = |row: usize| (row * length + step) * inner;
        match (&mut whole, element.data.as_ref()) {
            (Data::F32(whole), Data::F32(part)) => place(whole, part, inner, start),
            (Data::F64(whole), Data::F64(part)) => place(whole, part, inner, start),
            (Data::Int(whole), Data::Int(part)) => place(whole, part, inner, start),
            (Data::Complex(whole), Data::Complex(part)) => place(whole, part, inner, start),
            _ => return Err(structure(flow, "a scan output has another element type than its elements")),
        }
    }
    Ok(Array { dtype: form.dtype, shape: form.shape, data: whole.into() })
}
