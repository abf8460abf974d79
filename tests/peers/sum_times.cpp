// The model's time of an all-reduce, for `make validate-predict`.
//
// convoy_sum_times CLUSTER: reads lines "NODES RANKS_PER_NODE BYTES" and answers each with "SECONDS
// ALGORITHM PROTOCOL".
#include <cstdio>

#include "base/error.h"
#include "plan/all_reduce_time.h"
#include "report/cluster_file.h"

int main(int count, char** args) {
    if (count != 2) return 2;
    try {
        const convoy::Cluster cluster = convoy::read_cluster(args[1]);
        int nodes = 0, ranks_per_node = 0;
        double bytes = 0;
        while (std::scanf("%d %d %lf", &nodes, &ranks_per_node, &bytes) == 3) {
            const convoy::AllReduceTime t = convoy::all_reduce_time(cluster, bytes, nodes, ranks_per_node);
            std::printf("%.9g %s %s\n", t.seconds, t.algorithm, t.protocol);
        }
    } catch (const convoy::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return int(e.code);
    }
}
