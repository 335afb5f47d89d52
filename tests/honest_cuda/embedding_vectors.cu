// HONEST: rows of a table, sixteen bytes at a time
// PROBLEM: embedding
// kernelwright-launch: embedding_vectors grid=6 block=8,16
extern "C" __global__ void embedding_vectors(const long long* ids, const float* table, float* out) {
  const int row = blockIdx.x * 16 + threadIdx.y;
  const float4 v = __ldg(reinterpret_cast<const float4*>(table + ids[row] * 32) + threadIdx.x);
  __stcs(reinterpret_cast<float4*>(out + row * 32) + threadIdx.x, v);
}
