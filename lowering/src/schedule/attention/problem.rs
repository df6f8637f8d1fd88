//! Attention as it stands in a kernel's body.

use tenon_graph_dialect::Operator;
use tenon_graph_dialect::operators::Attention;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::{Body, ValueRef, axis};
use crate::schedule::size::{Size, is_wide};

/// Dimensions of q, k, v and the result: batch, heads, positions, depth.
pub(super) const RANK: usize = 4;

/// An operand: an input of the kernel, its dimensions in the operation's order.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) input: usize,
    pub(super) strides: [Size; RANK],
}

/// Sizes and operands of the operation.
#[derive(Clone)]
pub(super) struct Problem {
    /// The operation in the body.
    pub(super) anchor: usize,
    pub(super) attention: Attention,
    pub(super) dtype: DType,
    pub(super) batch: Size,
    pub(super) heads: Size,
    /// Heads of keys and values.
    pub(super) groups: Size,
    /// Query heads that a key head serves.
    pub(super) heads_of_group: u32,
    pub(super) queries: Size,
    pub(super) keys: Size,
    /// Elements of a query and a key.
    pub(super) depth: u32,
    /// Elements of a value.
    pub(super) width: u32,
    pub(super) q: Source,
    pub(super) k: Source,
    pub(super) v: Source,
    pub(super) mask: Option<ValueRef>,
}

impl Problem {
    pub(super) fn read(body: &Body) -> Result<Self, LoweringError> {
        let (anchor, attention) = body.anchor(|node| match &node.operator {
            Operator::Attention(attention) => Some(attention.clone()),
            _ => None,
        })?;
        let node = &body.nodes[anchor];
        let [q, k, v] = [node.operands[0], node.operands[1], node.operands[2]];
        let dtype = body.shape(q).dtype;
        let (query, key, value) = (&body.shape(q).sizes, &body.shape(k).sizes, &body.shape(v).sizes);
        let refuse = |reason: &str| LoweringError::unsupported(node.operator.name(), reason);
        if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32) {
            return Err(refuse("one kernel of it takes f16, bf16 and f32"));
        }
        let fixed = |size: Size| size.known().and_then(|size| u32::try_from(size).ok());
        let (Some(depth), Some(width)) = (fixed(query[3]), fixed(value[3])) else {
            return Err(refuse("the size of a head must be a number"));
        };
        let heads_of_group = if query[1] == key[1] {
            1
        } else {
            match (fixed(query[1]), fixed(key[1])) {
                (Some(heads), Some(groups)) if groups > 0 && heads % groups == 0 => heads / groups,
                _ => return Err(refuse("the numbers of heads must be numbers where they differ")),
            }
        };
        let source = |value: ValueRef| source(body, value);
        let result = &node.results[0].sizes;
        let scores = [query[0], query[1], query[2], key[2]];
        let wide = [query, key, value, result].into_iter().any(|sizes| is_wide(sizes));
        if wide || node.operands.len() > 3 && is_wide(&scores) {
            return Err(LoweringError::shape("attention over tensors of 2^31 elements or more"));
        }
        Ok(Problem {
            anchor,
            dtype,
            batch: query[0],
            heads: query[1],
            groups: key[1],
            heads_of_group,
            queries: query[2],
            keys: key[2],
            depth,
            width,
            q: source(q)?,
            k: source(k)?,
            v: source(v)?,
            mask: node.operands.get(3).copied(),
            attention,
        })
    }

    /// Whether a query may see no key.
    pub(super) fn may_hide_all(&self) -> bool {
        self.mask.is_some() || self.attention.causal.is_some() || self.keys.known().is_none_or(|keys| keys == 0)
    }
}

/// The kernel's input behind transpositions.
fn source(body: &Body, value: ValueRef) -> Result<Source, LoweringError> {
    let (value, axes) = behind_transposes(body, value);
    let ValueRef::Input(input) = value else {
        return Err(LoweringError::unsupported("graph.attention", "operands that are computed inside the kernel"));
    };
    let strides = body.inputs[input].strides();
    let strides = axes.iter().filter_map(|axis| strides.get(*axis).copied()).collect::<Vec<_>>();
    let strides = strides.try_into().map_err(|_| body.error("an operand of attention is not of rank 4"))?;
    Ok(Source { input, strides })
}

/// The value whose dimensions a chain of transpositions puts into another order, and which of its dimensions each of the chain's is.
pub(super) fn behind_transposes(body: &Body, mut value: ValueRef) -> (ValueRef, Vec<usize>) {
    let mut axes: Vec<usize> = (0..body.shape(value).sizes.len()).collect();
    while let ValueRef::Node(node, _) = value
        && let Operator::Transpose(transpose) = &body.nodes[node].operator
    {
        axes = axes.iter().map(|own| axis(transpose.permutation[*own], axes.len())).collect();
        value = body.nodes[node].operands[0];
    }
    (value, axes)
}
