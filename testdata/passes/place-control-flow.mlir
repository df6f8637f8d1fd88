module {
  func.func @main(%n: tensor<i64>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>) {
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32> loc("zero")
    %total = graph.reduce sum(%x) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32> loc("total")
    %positive = graph.elementwise greater(%total, %zero) : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("positive")
    %last, %all = flow.loop count(%n : tensor<i64>) while(%positive : tensor<i1>) carry(%x : tensor<3xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
    ^bb0(%i: tensor<i64>, %v: tensor<3xf32>):
      %step = graph.cast %i : tensor<i64> -> tensor<f32> loc("step")
      %next = graph.elementwise subtract(%v, %step) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32> loc("next")
      %sum = graph.reduce sum(%next) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32> loc("sum")
      %more = graph.elementwise greater(%sum, %zero) : (tensor<f32>, tensor<f32>) -> tensor<i1> loc("more")
      %chosen = flow.if %more : tensor<i1> -> (tensor<3xf32>) {
        %negative = graph.elementwise negate(%next) : (tensor<3xf32>) -> tensor<3xf32> loc("negative")
        flow.yield %negative : tensor<3xf32> loc("chosen")
      } else {
        flow.yield %next : tensor<3xf32> loc("chosen")
      } loc("chosen")
      flow.yield %more, %next, %chosen : tensor<i1>, tensor<3xf32>, tensor<3xf32> loc("repeat")
    } loc("repeat")
    %heavy = flow.if %positive : tensor<i1> -> (tensor<3xf32>) {
      %s = graph.softmax %x {axis = 0 : i64} : tensor<3xf32> -> tensor<3xf32> loc("softmax")
      flow.yield %s : tensor<3xf32> loc("heavy")
    } else {
      flow.yield %x : tensor<3xf32> loc("heavy")
    } loc("heavy")
    return %last, %all, %heavy : tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32> loc("return")
  } loc("main")
}
