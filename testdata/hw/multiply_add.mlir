#layout = #hw.layout<reg = [[1], [2], [512]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @multiply_add target "sm_80" warps 4 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: !llvm.ptr<1> loc("model.onnx":1:1), %arg3: i64 loc("model.onnx":1:1)):
    %0 = hw.program_id 0 loc(#loc1)
    %c1024_i32 = arith.constant 1024 : i32 loc(#loc1)
    %1 = arith.muli %0, %c1024_i32 : i32 loc(#loc1)
    %2 = hw.iota 0 : <[1024] x i32, #layout> loc(#loc1)
    %3 = hw.map(%2) : (!hw.tile<[1024] x i32, #layout>) -> !hw.tile<[1024] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c1024_i32_0 = arith.constant 1024 : i32 loc(#loc1)
      %9 = arith.muli %c0_i32, %c1024_i32_0 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg4 : i32 loc(#loc1)
      hw.yield %10 : i32 loc(#loc1)
    } loc(#loc1)
    %4 = hw.map(%3) : (!hw.tile<[1024] x i32, #layout>) -> !hw.tile<[1024] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %9 = arith.addi %arg4, %1 : i32 loc(#loc1)
      hw.yield %9 : i32 loc(#loc1)
    } loc(#loc1)
    %5 = hw.map(%4) : (!hw.tile<[1024] x i32, #layout>) -> !hw.tile<[1024] x i1, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %9 = arith.extsi %arg4 : i32 to i64 loc(#loc1)
      %10 = arith.cmpi slt, %9, %arg3 : i64 loc(#loc1)
      hw.yield %10 : i1 loc(#loc1)
    } loc(#loc1)
    %cst = arith.constant 0.000000e+00 : f32 loc(#loc1)
    %6 = hw.load %arg0[%4] mask %5 : !hw.tile<[1024] x i1, #layout> else %cst : f32 {contiguity = 4 : i64} : !llvm.ptr<1>, <[1024] x i32, #layout> -> <[1024] x f32, #layout> loc(#loc1)
    %7 = hw.load %arg1[%4] mask %5 : !hw.tile<[1024] x i1, #layout> else %cst : f32 {contiguity = 4 : i64} : !llvm.ptr<1>, <[1024] x i32, #layout> -> <[1024] x f32, #layout> loc(#loc1)
    %8 = hw.map(%6, %7) : (!hw.tile<[1024] x f32, #layout>, !hw.tile<[1024] x f32, #layout>) -> !hw.tile<[1024] x f32, #layout> {
    ^bb0(%arg4: f32 loc("model.onnx":1:1), %arg5: f32 loc("model.onnx":1:1)):
      %9 = arith.mulf %arg4, %arg5 : f32 loc(#loc1)
      %10 = arith.addf %9, %arg4 : f32 loc(#loc1)
      hw.yield %10 : f32 loc(#loc1)
    } loc(#loc1)
    hw.store %8, %arg2[%4] mask %5 : !hw.tile<[1024] x i1, #layout> {contiguity = 4 : i64} : <[1024] x f32, #layout>, !llvm.ptr<1>, <[1024] x i32, #layout> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
