//! `hw.map`: scalar code once per distinct register.

use std::collections::HashMap;

use tenon_ir::{Block, Op, Value};

use super::values::Lowered;
use super::{ExpandError, Expander};

impl<'k, 'm> Expander<'k, 'm, '_> {
    pub(super) fn map(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let body = op.region_block(0).ok_or_else(|| self.malformed("it has no body"))?;
        let inputs = (0..op.operand_count()).map(|i| self.tile(op, i)).collect::<Result<Vec<_>, _>>()?;
        let results = (0..op.result_count()).map(|i| self.result_type(op, i)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = results.first() else { return Ok(()) };
        let layout = &first.layout;
        let alike = inputs.iter().map(|tile| &tile.ty.layout).chain(results.iter().map(|ty| &ty.layout));
        if alike.into_iter().any(|other| other != layout) {
            return Err(self.misfit("inputs and outputs are of different layouts"));
        }
        let ty = op.result(0).map(Value::ty).ok_or_else(|| self.malformed("it has no result"))?;
        let distinct = self.distinct(ty, layout);

        // The body is pure: equal inputs give equal results.
        let mut known: HashMap<Vec<usize>, Vec<Value<'m>>> = HashMap::new();
        let mut outputs = vec![Vec::new(); results.len()];
        for register in 0..layout.registers() as usize {
            let representative = distinct[register] as usize;
            let arguments: Vec<_> = inputs.iter().map(|tile| tile.registers[representative]).collect();
            let key: Vec<_> = arguments.iter().map(|value| value.key()).collect();
            let values = match known.get(&key) {
                Some(values) => values.clone(),
                None => {
                    let values = self.inline(body, &arguments)?;
                    known.insert(key, values.clone());
                    values
                }
            };
            if values.len() != outputs.len() {
                return Err(self.malformed(format!("it yields {} values for {} results", values.len(), outputs.len())));
            }
            outputs.iter_mut().zip(values).for_each(|(output, value)| output.push(value));
        }
        for (index, registers) in outputs.into_iter().enumerate() {
            self.set_tile(op, index, registers)?;
        }
        Ok(())
    }

    /// The scalar code of a body at the present place; what it yields.
    pub(super) fn inline(&mut self, body: Block<'k>, arguments: &[Value<'m>]) -> Result<Vec<Value<'m>>, ExpandError> {
        let parameters = body.arguments();
        if parameters.len() != arguments.len() {
            let reason = format!("its body takes {} values where there are {}", parameters.len(), arguments.len());
            return Err(self.malformed(reason));
        }
        for (parameter, argument) in parameters.iter().zip(arguments) {
            if parameter.ty() != argument.ty() {
                let reason = format!("its body takes `{}` where the elements are `{}`", parameter.ty(), argument.ty());
                return Err(self.malformed(reason));
            }
            self.values.insert(parameter.key(), Lowered::Scalar(*argument));
        }
        let (outside, place) = (self.at, self.place.clone());
        for op in body.ops() {
            if op.is("hw.yield") {
                let values = op.operands().into_iter().map(|value| self.flat(value)).collect::<Result<Vec<_>, _>>()?;
                (self.at, self.place) = (outside, place);
                return Ok(values.concat());
            }
            let name = op.name();
            self.at = self.at.with_location(op.location());
            self.place.operation.clone_from(&name);
            self.rebuild(op, &name)?;
        }
        Err(self.malformed("its body does not end in `hw.yield`"))
    }
}
