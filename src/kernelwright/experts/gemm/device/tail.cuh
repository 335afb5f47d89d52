// The last wave of a persistent grid, where its tiles are fewer than its clusters: TAIL shares of k for each of them.
//
// Whole waves are done as ever; the sums of shares go to a workspace, and a second kernel adds them up. What stream-K
// (Osama et al., 2023) calls the hybrid schedule, with equal shares and no waiting between blocks.
#pragma once

// Pieces of work in whole waves of `workers` clusters.
KW_DEVICE int whole_waves(int works, int workers) { return works / workers * workers; }

// Turns an index behind the whole waves into its tile's, and says which share of k it is: -1 in whole waves. False
// behind the last.
KW_DEVICE bool tail_work(int& index, int works, int workers, int& share) {
  const int whole = whole_waves(works, workers), rest = works - whole;
  share = -1;
  if (index < whole) return true;
  if (rest == 0 || index - whole >= rest * TAIL) return false;
  share = (index - whole) / rest, index = whole + (index - whole) % rest;
  return true;
}

// Where the partial sums of a share of a tile begin; tile and rank counted from the first behind the whole waves.
KW_DEVICE float* tail_place(const Ends& ends, int rest, int clusters, int share, int tile, int rank) {
  return ends.parts + ((size_t(share) * rest + tile) * clusters + rank) * (BM * BN);
}
