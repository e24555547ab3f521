# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_ashlar_global_optspecs
    string join \n h/help V/version
end

function __fish_ashlar_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_ashlar_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_ashlar_using_subcommand
    set -l cmd (__fish_ashlar_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c ashlar -n "__fish_ashlar_needs_command" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_needs_command" -s V -l version -d 'Print version'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "run" -d 'Run a program with its malloc on ashlar'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "compare" -d 'Say what a program gains: run it by turns on the system\'s malloc and on ashlar'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "ps" -d 'List the processes on ashlar'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "info" -d 'Show the caches and the memory of a process on ashlar, while it runs'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "diff" -d 'Show what changed between two files of `ashlar info --save`'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "top" -d 'Watch the caches of a process, or all processes on ashlar'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "export" -d 'Serve the figures of all processes to Prometheus and its like, by HTTP'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "doctor" -d 'Say what is in the way of ashlar here, in a program or in a process, and what to do'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "tune" -d 'Change a tunable of a cache of a running process'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "shrink" -d 'Have a running process return the free slabs of a cache, or of all'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "reap" -d 'Have a running process return all free memory to the system'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "validate" -d 'Have a running process check the free objects of a cache, or of all'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "profile" -d 'Show where the memory of a program was allocated'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "pins" -d 'Show which caches have pages that cannot go back, and which objects hold them'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "report" -d 'Write a page about the memory of a process: caches, growth, pinned pages, heap profile'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "bench" -d 'Run the kernel\'s slab tests A to F on ashlar and its peers (other mallocs), and print the table'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "forward" -d 'Forward IPv4 packets with heads from ashlar and other mallocs, freed one by one and in bulk, and print the differences'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "hackbench" -d 'Send messages between groups of senders and receivers, and print what hackbench prints'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "simulate" -d 'Predict the kernel\'s slab tests D and F for machines with more CPUs and nodes, from what is measured here'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "kernel" -d 'Boot a small kernel on ashlar in an emulated machine, run the kernel\'s slab tests in ring 0, on ashlar and on allocators behind a spin lock, and print the table'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "reproduce" -d 'Go through every claim of five mails on slab allocators, and say with figures whether it holds here'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "soak" -d 'Use everything at once, with options drawn at random, and check that no object is lost or overwritten'
complete -c ashlar -n "__fish_ashlar_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l engine -d 'The strategy of the caches (option `engine`)' -r -f -a "ashlar\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
debug\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l option -d 'An option of the allocator, as in `ASHLAR_OPTIONS`; may be given several times' -r -f -a "engine=\t''
percpu=\t''
irq=\t''
nodes=\t''
hugepages=\t''
prefault=\t''
zone=\t''
decay=\t''
reaper=\t''
min_order=\t''
max_order=\t''
min_objects=\t''
sheaf_capacity=\t''
barn=\t''
min_partial=\t''
cpu_partial=\t''
remote_node_defrag_ratio=\t''
limit=\t''
batchcount=\t''
shared=\t''
merge=\t''
noaliencache=\t''
on_error=\t''
init_on_alloc=\t''
init_on_free=\t''
quarantine=\t''
random=\t''
random_kmalloc=\t''
guard=\t''
checks=\t''
backtrace=\t''
deepbind=\t''
control=\t''
window=\t''
profile=\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l debug -d 'Debug caches, as `ASHLAR_DEBUG`: letters of FZPUTAO, then names of caches, each behind a comma; further blocks behind semicolons. An empty text means FZPU for all' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l failslab -d 'Let allocations of caches with the letter A fail, as `ASHLAR_FAILSLAB`' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l stats -d 'Print the caches, resident memory and the mode on standard error when the program ends' -r -f -a "text\t''
json\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l profile -d 'Sample where memory is allocated, and write that to a file when the program ends; `%p` is the number of the process' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l profile-rate -d 'Bytes between two samples, on average: 1 to 16M [default: 512K]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l suppressions -d 'Leave out what fits a line `leak:PATTERN` of this file' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l leak-exit-code -d 'The exit code if something is left' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -l leaks -d 'Print what lives when the program ends, by the place where it was allocated'
complete -c ashlar -n "__fish_ashlar_using_subcommand run" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l rounds -d 'Rounds, each of one run on every malloc [default: what fits into 20 seconds, 6 to 30]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l warmup -d 'Rounds before them that do not count' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l with -d 'More mallocs, separated by commas: mimalloc, jemalloc, tcmalloc, snmalloc, rpmalloc, the path of a shared library, or `all` for those that are found' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l option -d 'An option of ashlar, as in `ASHLAR_OPTIONS`; may be given several times' -r -f -a "engine=\t''
percpu=\t''
irq=\t''
nodes=\t''
hugepages=\t''
prefault=\t''
zone=\t''
decay=\t''
reaper=\t''
min_order=\t''
max_order=\t''
min_objects=\t''
sheaf_capacity=\t''
barn=\t''
min_partial=\t''
cpu_partial=\t''
remote_node_defrag_ratio=\t''
limit=\t''
batchcount=\t''
shared=\t''
merge=\t''
noaliencache=\t''
on_error=\t''
init_on_alloc=\t''
init_on_free=\t''
quarantine=\t''
random=\t''
random_kmalloc=\t''
guard=\t''
checks=\t''
backtrace=\t''
deepbind=\t''
control=\t''
window=\t''
profile=\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l base -d 'What the ratios are to: the system\'s malloc, or ashlar, to see what options of it cost' -r -f -a "system\t'The malloc that programs have if nothing is preloaded'
ashlar\t'Ashlar without the options of `--option`'"
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l json -d 'Write machine, runs, ratios and intervals as JSON; `-` for standard output' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -l no-check -d 'Do not compare outputs and exit codes, for a program that differs from run to run'
complete -c ashlar -n "__fish_ashlar_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ashlar -n "__fish_ashlar_using_subcommand ps" -l json -d 'Write all figures of each process as JSON'
complete -c ashlar -n "__fish_ashlar_using_subcommand ps" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand info" -l save -d 'Write the figures to a file, for `ashlar diff`' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand info" -l events -d 'Also show how often slow paths were taken'
complete -c ashlar -n "__fish_ashlar_using_subcommand info" -l json -d 'Write the figures as JSON'
complete -c ashlar -n "__fish_ashlar_using_subcommand info" -l prometheus -d 'Write the figures in the text format of Prometheus'
complete -c ashlar -n "__fish_ashlar_using_subcommand info" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand diff" -l json -d 'Write the changes as JSON'
complete -c ashlar -n "__fish_ashlar_using_subcommand diff" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand top" -l interval -d 'Seconds between two looks, 0.1 to 3600' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand top" -l sort -d 'The column by which rows are sorted' -r -f -a "name\t''
active\t''
cached\t''
memory\t''
pinned\t''
growth\t''
alloc\t''
free\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand top" -l filter -d 'Show rows whose name has this text' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand top" -l once -d 'Print one table after one interval, and end'
complete -c ashlar -n "__fish_ashlar_using_subcommand top" -l json -d 'The same as JSON'
complete -c ashlar -n "__fish_ashlar_using_subcommand top" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand export" -l listen -d 'The address and the port to listen at; port 0 for any' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand export" -l caches -d 'The most caches of all processes together; the largest are kept' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand export" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand doctor" -l json -d 'Write what was found as JSON'
complete -c ashlar -n "__fish_ashlar_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand tune" -l timeout -d 'Seconds to wait for the process, 0.1 to 3600' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand tune" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand shrink" -l timeout -d 'Seconds to wait for the process, 0.1 to 3600' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand shrink" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand reap" -l timeout -d 'Seconds to wait for the process, 0.1 to 3600' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand reap" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand validate" -l timeout -d 'Seconds to wait for the process, 0.1 to 3600' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand validate" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l by -d 'The rows of the table; `site` prints backtraces' -r -f -a "function\t''
site\t''
cache\t''
thread\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l limit -d 'The most rows' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -s o -l pprof -d 'Write a file for pprof, such as heap.pb.gz' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l seconds -d 'Have the process profile itself for so long, 0.1 to 3600, then show that' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l rate -d 'Bytes between two samples of a profile that is started: 1 to 16M' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l timeout -d 'Seconds to wait for the process, 0.1 to 3600' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l top -d 'Print a table of the places that hold most memory [default]'
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l allocated -d 'Sort by, or print, all that was allocated instead of what is live'
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l folded -d 'Print a line for each backtrace with its bytes, for flame graphs'
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l start -d 'Have the process start a profile, and end'
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -l stop -d 'Have the process stop its profile, and end'
complete -c ashlar -n "__fish_ashlar_using_subcommand profile" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand pins" -l all -d 'Also show sites that hold less than a hundredth'
complete -c ashlar -n "__fish_ashlar_using_subcommand pins" -l json -d 'Write the same as JSON'
complete -c ashlar -n "__fish_ashlar_using_subcommand pins" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand report" -l html -d 'Write the page to OUT, or to standard output' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand report" -l seconds -d 'Seconds to look at a process, 0.1 to 3600 [default: 5]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand report" -l profile -d 'Show this heap profile, of `ashlar run --profile` [default: that of the process, if any]' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand report" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l systems -d 'Systems, separated by commas, or `all`' -r -f -a "all\t''
ashlar\t''
ashlar-sized\t''
ashlar-cache\t''
ashlar-malloc\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
glibc\t''
mimalloc\t''
jemalloc\t''
snmalloc\t''
rpmalloc\t''
tcmalloc\t''
tcmalloc-percpu\t''
jemalloc-sized\t''
snmalloc-sized\t''
tcmalloc-sized\t''
mimalloc-sized\t''
limit\t''
limit-called\t''
linux-slab\t''
linux-slub\t''
linux-slob\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l sizes -d 'Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l objects -d 'Objects for each CPU and pass' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l cpus -d 'Threads of the concurrent tests, each pinned to a CPU, in turn where there are more of them than CPUs [default: the CPUs this process may use]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l nodes -d 'NUMA nodes that ashlar and its engines pretend, 1 to 64 (their option `nodes`) [default: the machine\'s]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l irq -d 'What stands for disabled interrupts in the engines of the kernel\'s history (their option `irq`): `lock`, a compare-and-swap, or `biased`, a plain store in a critical section [default: that of `ASHLAR_OPTIONS`, else lock]' -r -f -a "lock\t''
biased\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l page -d 'Page size of ashlar and its engines, which is another build of the lab; Cargo makes it where it started this one [default: that of this build]' -r -f -a "4K\t''
16K\t''
64K\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l fragmented -d 'Let each process begin with a fragmented heap: for each size so many objects that are 8 bytes smaller, of which every second is freed' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l rounds -d 'Measured rounds; each asks every system in turn for each test and size, several times where that is cheap' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l json -d 'Write host and records as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l csv -d 'Write the records as comma-separated values' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l style -d '`table`: one block for each test; `kernel`: the lines that the kernel\'s test module prints' -r -f -a "table\t''
kernel\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l by -d 'Statistic over the measured turns that ratings, ratios and targets use' -r -f -a "min\t''
median\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l from -d 'Do not measure: take the records of an earlier run from this JSON file' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l first-pass -d 'Show the first pass after start: each figure is from a new process that runs one pass of one test and size, without warm-up. Without this option the memory beside A and B contains what the system kept of the sizes that its process ran before'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l wide -d 'Show every system side by side, however wide the table becomes; without it, those that fit the terminal, or all of `--systems` in parts'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l check-targets -d 'Judge the speed targets of the project; exit code 1 if one is missed'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -l published -d 'Show beside the measured figures those that the kernel\'s mailing lists published, of other machines and kernels'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -a "programs" -d 'Run whole programs on ashlar and its peers, by preloading each library'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -a "worst" -d 'Time each call by itself on heaps made to be bad, and print the worst'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -a "bulk" -d 'Time calls for many objects at once against loops of single calls, and against DPDK\'s mempool'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -a "memory" -d 'Replay one trace on every system and print slabs, resident memory and utilisation'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -a "checks" -d 'Time malloc and free with and without their misuse checks, and kmalloc and kfree beside them'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and not __fish_seen_subcommand_from programs worst bulk memory checks help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l systems -d 'Systems, separated by commas, or `all`' -r -f -a "all\t''
glibc\t''
ashlar\t''
mimalloc\t''
jemalloc\t''
tcmalloc\t''
snmalloc\t''
rpmalloc\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l workloads -d 'Workloads, separated by commas; `all`, `synthetic`, `live` and `real` stand for many' -r -f -a "all\t''
synthetic\t''
live\t''
real\t''
numbers\t''
sets\t''
random\t''
trees\t''
store\t''
words\t''
phases\t''
large\t''
vectors\t''
zeroed\t''
aligned\t''
server2\t''
server4\t''
handover\t''
handover-small\t''
crossing\t''
churn\t''
piles\t''
sharing\t''
sharing-given\t''
live-1\t''
live-8\t''
live-64\t''
live-1-skewed\t''
live-8-skewed\t''
live-64-skewed\t''
live-8-busy\t''
live-64-busy\t''
gcc\t''
python\t''
perl\t''
lua\t''
sqlite\t''
git\t''
node\t''
sort\t''
xz\t''
zstd\t''
redis\t''
startup\t''
pairs\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l rounds -d 'Measured rounds; each runs every workload once on every system' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l scale -d 'How much of the usual work is done' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l option -d 'A column more: ashlar with these options (as in `ASHLAR_OPTIONS`); may be given several times' -r -f -a "engine=\t''
percpu=\t''
irq=\t''
nodes=\t''
hugepages=\t''
prefault=\t''
zone=\t''
decay=\t''
reaper=\t''
min_order=\t''
max_order=\t''
min_objects=\t''
sheaf_capacity=\t''
barn=\t''
min_partial=\t''
cpu_partial=\t''
remote_node_defrag_ratio=\t''
limit=\t''
batchcount=\t''
shared=\t''
merge=\t''
noaliencache=\t''
on_error=\t''
init_on_alloc=\t''
init_on_free=\t''
quarantine=\t''
random=\t''
random_kmalloc=\t''
guard=\t''
checks=\t''
backtrace=\t''
deepbind=\t''
control=\t''
window=\t''
profile=\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l json -d 'Write machine and figures as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l by -d 'Statistic over the rounds that ratios and targets use' -r -f -a "min\t''
median\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l from -d 'Do not measure: take the figures of an earlier run from this JSON file' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l list -d 'Print workloads and systems, and what is missing here; run nothing'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -l check-targets -d 'Judge the targets of the project; exit code 1 if one is missed'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from programs" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l systems -d 'Engines of ashlar, `ashlar-malloc` and other mallocs, separated by commas, or `all`' -r -f -a "all\t''
ashlar\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
debug\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l sizes -d 'Object sizes in bytes, 16 or more, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l live -d 'Objects of the fragmented heap, of which every second is freed' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l samples -d 'Calls of each kind that are timed with warm caches' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l cold -d 'Calls of each kind that are timed with cold caches' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l sweep -d 'MiB that are read before each of those, to make the caches cold' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -l json -d 'Write machine and figures as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from worst" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l systems -d 'Systems, separated by commas, or `all`; `dpdk` is the mempool in DPDK\'s own test' -r -f -a "all\t''
ashlar\t''
ashlar-sized\t''
ashlar-cache\t''
ashlar-malloc\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
glibc\t''
mimalloc\t''
jemalloc\t''
snmalloc\t''
rpmalloc\t''
tcmalloc\t''
tcmalloc-percpu\t''
jemalloc-sized\t''
snmalloc-sized\t''
tcmalloc-sized\t''
mimalloc-sized\t''
limit\t''
limit-called\t''
linux-slab\t''
linux-slub\t''
linux-slob\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l bulks -d 'Objects of one call, separated by commas' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l size -d 'Bytes of an object' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l objects -d 'Objects of a timed pass' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l spread -d 'Objects of the heap of the worst case' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l passes -d 'Passes of each cell in a process' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l rounds -d 'Measured rounds; each starts a process for every system' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l json -d 'Write host and records as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -l check-targets -d 'Judge the targets: from 8 on a call costs at most 0.4 of the loop, no cliff from 30 to 250, ahead of DPDK\'s mempool; exit code 1 if one is missed'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from bulk" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l systems -d 'Systems, separated by commas, or `all`' -r -f -a "all\t''
ashlar\t''
ashlar-sized\t''
ashlar-cache\t''
ashlar-malloc\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
glibc\t''
mimalloc\t''
jemalloc\t''
snmalloc\t''
rpmalloc\t''
tcmalloc\t''
tcmalloc-percpu\t''
jemalloc-sized\t''
snmalloc-sized\t''
tcmalloc-sized\t''
mimalloc-sized\t''
limit\t''
limit-called\t''
linux-slab\t''
linux-slub\t''
linux-slob\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l profile -d 'The trace' -r -f -a "mixed\t'A kernel at work: grow, churn, free three quarters, shrink'
caches\t'Many caches of similar sizes, then messages that come and go'"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l scale -d 'How much of the full trace, for all systems' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l seed -d 'What the trace is made from' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l idle -d 'Milliseconds that the idle phase lasts' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l option -d 'Each system of ashlar once more, with these options (as in `ASHLAR_OPTIONS`); may be given several times' -r -f -a "engine=\t''
percpu=\t''
irq=\t''
nodes=\t''
hugepages=\t''
prefault=\t''
zone=\t''
decay=\t''
reaper=\t''
min_order=\t''
max_order=\t''
min_objects=\t''
sheaf_capacity=\t''
barn=\t''
min_partial=\t''
cpu_partial=\t''
remote_node_defrag_ratio=\t''
limit=\t''
batchcount=\t''
shared=\t''
merge=\t''
noaliencache=\t''
on_error=\t''
init_on_alloc=\t''
init_on_free=\t''
quarantine=\t''
random=\t''
random_kmalloc=\t''
guard=\t''
checks=\t''
backtrace=\t''
deepbind=\t''
control=\t''
window=\t''
profile=\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l rounds -d 'Measured rounds; each starts a process for every system' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -l json -d 'Write host and records as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from memory" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from checks" -l sizes -d 'Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from checks" -l rounds -d 'Measured rounds; each starts one process, which runs everything' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from checks" -l json -d 'Write host and records as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from checks" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "programs" -d 'Run whole programs on ashlar and its peers, by preloading each library'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "worst" -d 'Time each call by itself on heaps made to be bad, and print the worst'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "bulk" -d 'Time calls for many objects at once against loops of single calls, and against DPDK\'s mempool'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "memory" -d 'Replay one trace on every system and print slabs, resident memory and utilisation'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "checks" -d 'Time malloc and free with and without their misuse checks, and kmalloc and kfree beside them'
complete -c ashlar -n "__fish_ashlar_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l systems -d 'Systems, separated by commas, or `all`' -r -f -a "all\t''
ashlar\t''
ashlar-malloc\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
glibc\t''
mimalloc\t''
jemalloc\t''
snmalloc\t''
rpmalloc\t''
tcmalloc\t''
tcmalloc-percpu\t''
jemalloc-sized\t''
snmalloc-sized\t''
tcmalloc-sized\t''
mimalloc-sized\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l modes -d 'Modes of systems that have caches, separated by commas, or `all`; others run `normal` alone' -r -f -a "all\t''
normal\t''
nomerge\t''
bulk\t''
bulk-nomerge\t''
bulk-tuned\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l bulk -d 'Most packet heads that one bulk free gives back' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l completions -d 'The CPU that frees sent packets' -r -f -a "same\t'The forwarder, at the start of each poll'
other\t'A thread on another CPU'"
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l size -d 'Bytes of a frame, without its checksum' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l routes -d 'Prefixes of the routing table' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l flows -d 'Destinations of the packets, in turn' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l bad -d 'Of thousand frames so many are bad, in turn for each reason to drop one' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l others -d 'Live objects of the other caches of 256 bytes that heads may be merged with; one is replaced in each poll' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l packets -d 'Packets of a pass [default: 200000 in memory, 20480 over veth]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l rounds -d 'Most rounds; each measures every mode of every system in turn, in processes of its own' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l max-seconds -d 'No further round begins that would end later than this' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l confidence -d 'Of the intervals, in per cent' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l json -d 'Write machine, records and differences as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l veth -d 'Forward between two network namespaces over veth pairs and packet sockets, not in memory. Needs the rights of root, or user namespaces'
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -l check-targets -d 'Judge the target of the project: bulk free at least 1 % faster than normal, beyond the noise; exit code 1 if it is missed'
complete -c ashlar -n "__fish_ashlar_using_subcommand forward" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s g -l groups -d 'Groups' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s l -l loops -d 'Messages of each sender to each receiver' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s f -l fds -d 'Senders of a group, and as many receivers' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s s -l datasize -d 'Bytes of a message; several sizes, separated by commas, take turns' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -l systems -l system -d 'Systems, separated by commas, or `all`' -r -f -a "all\t''
ashlar\t''
ashlar-sized\t''
ashlar-cache\t''
ashlar-malloc\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
glibc\t''
mimalloc\t''
jemalloc\t''
snmalloc\t''
rpmalloc\t''
tcmalloc\t''
tcmalloc-percpu\t''
jemalloc-sized\t''
snmalloc-sized\t''
tcmalloc-sized\t''
mimalloc-sized\t''
limit\t''
limit-called\t''
linux-slab\t''
linux-slub\t''
linux-slob\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -l scale -d 'Share of the loops that slow systems (`slob`) run' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -l boot -d 'Begin with the heap of a machine that has been up for a while: so many times 7 MiB of objects of 160 caches, of which a third was freed since; 0 for an empty heap. Processes begin with empty heaps' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -l rounds -d 'Measured rounds; each starts a process for every system' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -l json -d 'Write host and records as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s T -l threads -d 'Senders and receivers are threads: what one allocates the other frees (the default)'
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s P -l process -d 'Senders and receivers are processes, each with its own heap: messages are copied, each side frees what it allocated'
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -l instructions -d 'Count the instructions of user space by valgrind, and nothing else: each system runs under it with all loops and with one, and the difference is told'
complete -c ashlar -n "__fish_ashlar_using_subcommand hackbench" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l systems -d 'Engines of ashlar, separated by commas, or `all`' -r -f -a "all\t''
ashlar\t''
slub\t''
slub-emu\t''
slub+\t''
slub-o\t''
slub-2010\t''
slub-2010-ll\t''
slub-ll\t''
slub-bulk\t''
slab\t''
slab24\t''
slob\t''
slob-seg\t''
slob-cache\t''
debug\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l sizes -d 'Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l cpus -d 'Numbers of CPUs to predict for, 2 to 1024, separated by commas' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l nodes -d 'Numbers of NUMA nodes to predict for, 1 to 16, separated by commas; where there are more nodes than CPUs, nothing is predicted' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l far -d 'What a cache line from another node costs over one of the same, which cannot be measured on a machine with one node' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l line -d 'Predict for CPUs that are farther apart or nearer: what a line costs that moves between them, in cycles of the time-stamp counter, in place of what was measured' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l objects -d 'Objects for each CPU and measured pass' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l seed -d 'Start of the random numbers: the same measurements and the same seed give the same predictions' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l json -d 'Write machine, records, measured inputs and errors as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -l from -d 'Do not measure: predict from the inputs of an earlier run\'s JSON file' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand simulate" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l cpus -d 'CPUs of the machine' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l nodes -d 'NUMA nodes of the machine, which share its CPUs' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l sizes -d 'Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l objects -d 'Objects that each CPU allocates in a pass' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l seconds -d 'Seconds that all CPUs work at random on each system, interrupted, after the tests; for each of two boots' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l seed -d 'What random numbers begin with' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l json -d 'Write host and records as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -l check-targets -d 'Judge the target: an operation on all CPUs takes at most 1.5 times the instructions of one on one CPU; exit code 1 if it is missed'
complete -c ashlar -n "__fish_ashlar_using_subcommand kernel" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -l json -d 'Write claims, verdicts and everything that was measured as JSON' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -l html -d 'Write a page with charts, which needs nothing else' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -l markdown -d 'Write the verdicts and tables into a Markdown document. If it is there, only the parts between the lines `<!-- reproduce NAME -->` and `<!-- end -->` change' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -l runs -d 'Measurements to make, separated by commas, or `all`: tests, one-cpu, 2010, nodes, nodes-8, slob, simulate, bulk, memory, hackbench, instructions, forward, forward-none, forward-many, simulate-far' -r -f -a "all\t''
tests\t''
one-cpu\t''
2010\t''
nodes\t''
nodes-8\t''
slob\t''
simulate\t''
bulk\t''
memory\t''
hackbench\t''
instructions\t''
forward\t''
forward-none\t''
forward-many\t''
simulate-far\t''"
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -l from -d 'Do not measure: take what an earlier run wrote by `--json`, or a directory with a file NAME.json for each measurement' -r -F
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -l quick -d 'Measure a little of everything, to see that all of it works: the figures are worth nothing'
complete -c ashlar -n "__fish_ashlar_using_subcommand reproduce" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand soak" -l minutes -d 'Minutes, such as 30 or 0.5' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand soak" -l seed -d 'The number from which the options of each round are drawn, and what its threads do; a run prints it [default: another one each time]' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand soak" -l threads -d 'Threads that allocate and free' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand soak" -l round -d 'Seconds of a round' -r
complete -c ashlar -n "__fish_ashlar_using_subcommand soak" -s h -l help -d 'Print help'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "run" -d 'Run a program with its malloc on ashlar'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "compare" -d 'Say what a program gains: run it by turns on the system\'s malloc and on ashlar'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "ps" -d 'List the processes on ashlar'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "info" -d 'Show the caches and the memory of a process on ashlar, while it runs'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "diff" -d 'Show what changed between two files of `ashlar info --save`'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "top" -d 'Watch the caches of a process, or all processes on ashlar'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "export" -d 'Serve the figures of all processes to Prometheus and its like, by HTTP'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "doctor" -d 'Say what is in the way of ashlar here, in a program or in a process, and what to do'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "tune" -d 'Change a tunable of a cache of a running process'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "shrink" -d 'Have a running process return the free slabs of a cache, or of all'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "reap" -d 'Have a running process return all free memory to the system'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "validate" -d 'Have a running process check the free objects of a cache, or of all'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "profile" -d 'Show where the memory of a program was allocated'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "pins" -d 'Show which caches have pages that cannot go back, and which objects hold them'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "report" -d 'Write a page about the memory of a process: caches, growth, pinned pages, heap profile'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "bench" -d 'Run the kernel\'s slab tests A to F on ashlar and its peers (other mallocs), and print the table'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "forward" -d 'Forward IPv4 packets with heads from ashlar and other mallocs, freed one by one and in bulk, and print the differences'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "hackbench" -d 'Send messages between groups of senders and receivers, and print what hackbench prints'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "simulate" -d 'Predict the kernel\'s slab tests D and F for machines with more CPUs and nodes, from what is measured here'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "kernel" -d 'Boot a small kernel on ashlar in an emulated machine, run the kernel\'s slab tests in ring 0, on ashlar and on allocators behind a spin lock, and print the table'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "reproduce" -d 'Go through every claim of five mails on slab allocators, and say with figures whether it holds here'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "soak" -d 'Use everything at once, with options drawn at random, and check that no object is lost or overwritten'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and not __fish_seen_subcommand_from run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "programs" -d 'Run whole programs on ashlar and its peers, by preloading each library'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "worst" -d 'Time each call by itself on heaps made to be bad, and print the worst'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "bulk" -d 'Time calls for many objects at once against loops of single calls, and against DPDK\'s mempool'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "memory" -d 'Replay one trace on every system and print slabs, resident memory and utilisation'
complete -c ashlar -n "__fish_ashlar_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "checks" -d 'Time malloc and free with and without their misuse checks, and kmalloc and kfree beside them'
