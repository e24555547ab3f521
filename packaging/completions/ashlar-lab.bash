_ashlar__lab() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="ashlar__lab"
                ;;
            ashlar__lab,bench)
                cmd="ashlar__lab__subcmd__bench"
                ;;
            ashlar__lab,forward)
                cmd="ashlar__lab__subcmd__forward"
                ;;
            ashlar__lab,hackbench)
                cmd="ashlar__lab__subcmd__hackbench"
                ;;
            ashlar__lab,help)
                cmd="ashlar__lab__subcmd__help"
                ;;
            ashlar__lab,kernel)
                cmd="ashlar__lab__subcmd__kernel"
                ;;
            ashlar__lab,reproduce)
                cmd="ashlar__lab__subcmd__reproduce"
                ;;
            ashlar__lab,simulate)
                cmd="ashlar__lab__subcmd__simulate"
                ;;
            ashlar__lab,soak)
                cmd="ashlar__lab__subcmd__soak"
                ;;
            ashlar__lab__subcmd__bench,bulk)
                cmd="ashlar__lab__subcmd__bench__subcmd__bulk"
                ;;
            ashlar__lab__subcmd__bench,checks)
                cmd="ashlar__lab__subcmd__bench__subcmd__checks"
                ;;
            ashlar__lab__subcmd__bench,help)
                cmd="ashlar__lab__subcmd__bench__subcmd__help"
                ;;
            ashlar__lab__subcmd__bench,memory)
                cmd="ashlar__lab__subcmd__bench__subcmd__memory"
                ;;
            ashlar__lab__subcmd__bench,programs)
                cmd="ashlar__lab__subcmd__bench__subcmd__programs"
                ;;
            ashlar__lab__subcmd__bench,worst)
                cmd="ashlar__lab__subcmd__bench__subcmd__worst"
                ;;
            ashlar__lab__subcmd__bench__subcmd__help,bulk)
                cmd="ashlar__lab__subcmd__bench__subcmd__help__subcmd__bulk"
                ;;
            ashlar__lab__subcmd__bench__subcmd__help,checks)
                cmd="ashlar__lab__subcmd__bench__subcmd__help__subcmd__checks"
                ;;
            ashlar__lab__subcmd__bench__subcmd__help,help)
                cmd="ashlar__lab__subcmd__bench__subcmd__help__subcmd__help"
                ;;
            ashlar__lab__subcmd__bench__subcmd__help,memory)
                cmd="ashlar__lab__subcmd__bench__subcmd__help__subcmd__memory"
                ;;
            ashlar__lab__subcmd__bench__subcmd__help,programs)
                cmd="ashlar__lab__subcmd__bench__subcmd__help__subcmd__programs"
                ;;
            ashlar__lab__subcmd__bench__subcmd__help,worst)
                cmd="ashlar__lab__subcmd__bench__subcmd__help__subcmd__worst"
                ;;
            ashlar__lab__subcmd__help,bench)
                cmd="ashlar__lab__subcmd__help__subcmd__bench"
                ;;
            ashlar__lab__subcmd__help,forward)
                cmd="ashlar__lab__subcmd__help__subcmd__forward"
                ;;
            ashlar__lab__subcmd__help,hackbench)
                cmd="ashlar__lab__subcmd__help__subcmd__hackbench"
                ;;
            ashlar__lab__subcmd__help,help)
                cmd="ashlar__lab__subcmd__help__subcmd__help"
                ;;
            ashlar__lab__subcmd__help,kernel)
                cmd="ashlar__lab__subcmd__help__subcmd__kernel"
                ;;
            ashlar__lab__subcmd__help,reproduce)
                cmd="ashlar__lab__subcmd__help__subcmd__reproduce"
                ;;
            ashlar__lab__subcmd__help,simulate)
                cmd="ashlar__lab__subcmd__help__subcmd__simulate"
                ;;
            ashlar__lab__subcmd__help,soak)
                cmd="ashlar__lab__subcmd__help__subcmd__soak"
                ;;
            ashlar__lab__subcmd__help__subcmd__bench,bulk)
                cmd="ashlar__lab__subcmd__help__subcmd__bench__subcmd__bulk"
                ;;
            ashlar__lab__subcmd__help__subcmd__bench,checks)
                cmd="ashlar__lab__subcmd__help__subcmd__bench__subcmd__checks"
                ;;
            ashlar__lab__subcmd__help__subcmd__bench,memory)
                cmd="ashlar__lab__subcmd__help__subcmd__bench__subcmd__memory"
                ;;
            ashlar__lab__subcmd__help__subcmd__bench,programs)
                cmd="ashlar__lab__subcmd__help__subcmd__bench__subcmd__programs"
                ;;
            ashlar__lab__subcmd__help__subcmd__bench,worst)
                cmd="ashlar__lab__subcmd__help__subcmd__bench__subcmd__worst"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        ashlar__lab)
            opts="-h -V --help --version bench forward hackbench simulate kernel reproduce soak help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench)
            opts="-h --systems --sizes --objects --cpus --nodes --irq --page --fragmented --first-pass --rounds --json --csv --style --wide --by --check-targets --published --from --help programs worst bulk memory checks help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar ashlar-sized ashlar-cache ashlar-malloc slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache glibc mimalloc jemalloc snmalloc rpmalloc tcmalloc tcmalloc-percpu jemalloc-sized snmalloc-sized tcmalloc-sized mimalloc-sized limit limit-called linux-slab linux-slub linux-slob" -- "${cur}"))
                    return 0
                    ;;
                --sizes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --objects)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cpus)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --irq)
                    COMPREPLY=($(compgen -W "lock biased" -- "${cur}"))
                    return 0
                    ;;
                --page)
                    COMPREPLY=($(compgen -W "4K 16K 64K" -- "${cur}"))
                    return 0
                    ;;
                --fragmented)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --csv)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --style)
                    COMPREPLY=($(compgen -W "table kernel" -- "${cur}"))
                    return 0
                    ;;
                --by)
                    COMPREPLY=($(compgen -W "min median" -- "${cur}"))
                    return 0
                    ;;
                --from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__bulk)
            opts="-h --systems --bulks --size --objects --spread --passes --rounds --json --check-targets --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar ashlar-sized ashlar-cache ashlar-malloc slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache glibc mimalloc jemalloc snmalloc rpmalloc tcmalloc tcmalloc-percpu jemalloc-sized snmalloc-sized tcmalloc-sized mimalloc-sized limit limit-called linux-slab linux-slub linux-slob" -- "${cur}"))
                    return 0
                    ;;
                --bulks)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --objects)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --spread)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --passes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__checks)
            opts="-h --sizes --rounds --json --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --sizes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help)
            opts="programs worst bulk memory checks help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help__subcmd__bulk)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help__subcmd__checks)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help__subcmd__memory)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help__subcmd__programs)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__help__subcmd__worst)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__memory)
            opts="-h --systems --profile --scale --seed --idle --option --rounds --json --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar ashlar-sized ashlar-cache ashlar-malloc slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache glibc mimalloc jemalloc snmalloc rpmalloc tcmalloc tcmalloc-percpu jemalloc-sized snmalloc-sized tcmalloc-sized mimalloc-sized limit limit-called linux-slab linux-slub linux-slob" -- "${cur}"))
                    return 0
                    ;;
                --profile)
                    COMPREPLY=($(compgen -W "mixed caches" -- "${cur}"))
                    return 0
                    ;;
                --scale)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seed)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --idle)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --option)
                    COMPREPLY=($(compgen -W "engine= percpu= irq= nodes= hugepages= prefault= zone= decay= reaper= min_order= max_order= min_objects= sheaf_capacity= barn= min_partial= cpu_partial= remote_node_defrag_ratio= limit= batchcount= shared= merge= noaliencache= on_error= init_on_alloc= init_on_free= quarantine= random= random_kmalloc= guard= checks= backtrace= deepbind= control= window= profile=" -- "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__programs)
            opts="-h --systems --workloads --rounds --scale --option --list --json --by --check-targets --from --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all glibc ashlar mimalloc jemalloc tcmalloc snmalloc rpmalloc" -- "${cur}"))
                    return 0
                    ;;
                --workloads)
                    COMPREPLY=($(compgen -W "all synthetic live real numbers sets random trees store words phases large vectors zeroed aligned server2 server4 handover handover-small crossing churn piles sharing sharing-given live-1 live-8 live-64 live-1-skewed live-8-skewed live-64-skewed live-8-busy live-64-busy gcc python perl lua sqlite git node sort xz zstd redis startup pairs" -- "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --scale)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --option)
                    COMPREPLY=($(compgen -W "engine= percpu= irq= nodes= hugepages= prefault= zone= decay= reaper= min_order= max_order= min_objects= sheaf_capacity= barn= min_partial= cpu_partial= remote_node_defrag_ratio= limit= batchcount= shared= merge= noaliencache= on_error= init_on_alloc= init_on_free= quarantine= random= random_kmalloc= guard= checks= backtrace= deepbind= control= window= profile=" -- "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --by)
                    COMPREPLY=($(compgen -W "min median" -- "${cur}"))
                    return 0
                    ;;
                --from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__bench__subcmd__worst)
            opts="-h --systems --sizes --live --samples --cold --sweep --json --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache debug" -- "${cur}"))
                    return 0
                    ;;
                --sizes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --live)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --samples)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cold)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --sweep)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__forward)
            opts="-h --veth --systems --modes --bulk --completions --size --routes --flows --bad --others --packets --rounds --max-seconds --confidence --json --check-targets --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar ashlar-malloc slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache glibc mimalloc jemalloc snmalloc rpmalloc tcmalloc tcmalloc-percpu jemalloc-sized snmalloc-sized tcmalloc-sized mimalloc-sized" -- "${cur}"))
                    return 0
                    ;;
                --modes)
                    COMPREPLY=($(compgen -W "all normal nomerge bulk bulk-nomerge bulk-tuned" -- "${cur}"))
                    return 0
                    ;;
                --bulk)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --completions)
                    COMPREPLY=($(compgen -W "same other" -- "${cur}"))
                    return 0
                    ;;
                --size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --routes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --flows)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bad)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --others)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --packets)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-seconds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --confidence)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__hackbench)
            opts="-g -l -f -s -T -P -h --groups --loops --fds --datasize --threads --process --system --systems --scale --boot --rounds --instructions --json --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --groups)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -g)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --loops)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -l)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --fds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -f)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --datasize)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -s)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar ashlar-sized ashlar-cache ashlar-malloc slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache glibc mimalloc jemalloc snmalloc rpmalloc tcmalloc tcmalloc-percpu jemalloc-sized snmalloc-sized tcmalloc-sized mimalloc-sized limit limit-called linux-slab linux-slub linux-slob" -- "${cur}"))
                    return 0
                    ;;
                --system)
                    COMPREPLY=($(compgen -W "all ashlar ashlar-sized ashlar-cache ashlar-malloc slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache glibc mimalloc jemalloc snmalloc rpmalloc tcmalloc tcmalloc-percpu jemalloc-sized snmalloc-sized tcmalloc-sized mimalloc-sized limit limit-called linux-slab linux-slub linux-slob" -- "${cur}"))
                    return 0
                    ;;
                --scale)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --boot)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help)
            opts="bench forward hackbench simulate kernel reproduce soak help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__bench)
            opts="programs worst bulk memory checks"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__bench__subcmd__bulk)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__bench__subcmd__checks)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__bench__subcmd__memory)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__bench__subcmd__programs)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__bench__subcmd__worst)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 4 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__forward)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__hackbench)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__kernel)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__reproduce)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__simulate)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__help__subcmd__soak)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__kernel)
            opts="-h --cpus --nodes --sizes --objects --seconds --seed --json --check-targets --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --cpus)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --sizes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --objects)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seconds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seed)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__reproduce)
            opts="-h --json --html --markdown --quick --runs --from --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --html)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --markdown)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --runs)
                    COMPREPLY=($(compgen -W "all tests one-cpu 2010 nodes nodes-8 slob simulate bulk memory hackbench instructions forward forward-none forward-many simulate-far" -- "${cur}"))
                    return 0
                    ;;
                --from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__simulate)
            opts="-h --systems --sizes --cpus --nodes --far --line --objects --seed --json --from --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --systems)
                    COMPREPLY=($(compgen -W "all ashlar slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache debug" -- "${cur}"))
                    return 0
                    ;;
                --sizes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cpus)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --far)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --line)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --objects)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seed)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --json)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        ashlar__lab__subcmd__soak)
            opts="-h --minutes --seed --threads --round --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --minutes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seed)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --threads)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --round)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _ashlar__lab -o nosort -o bashdefault -o default ashlar-lab
else
    complete -F _ashlar__lab -o bashdefault -o default ashlar-lab
fi
