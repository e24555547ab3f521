_ashlar() {
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
                cmd="ashlar"
                ;;
            ashlar,bench)
                cmd="ashlar__subcmd__bench"
                ;;
            ashlar,compare)
                cmd="ashlar__subcmd__compare"
                ;;
            ashlar,diff)
                cmd="ashlar__subcmd__diff"
                ;;
            ashlar,doctor)
                cmd="ashlar__subcmd__doctor"
                ;;
            ashlar,export)
                cmd="ashlar__subcmd__export"
                ;;
            ashlar,forward)
                cmd="ashlar__subcmd__forward"
                ;;
            ashlar,hackbench)
                cmd="ashlar__subcmd__hackbench"
                ;;
            ashlar,help)
                cmd="ashlar__subcmd__help"
                ;;
            ashlar,info)
                cmd="ashlar__subcmd__info"
                ;;
            ashlar,kernel)
                cmd="ashlar__subcmd__kernel"
                ;;
            ashlar,pins)
                cmd="ashlar__subcmd__pins"
                ;;
            ashlar,profile)
                cmd="ashlar__subcmd__profile"
                ;;
            ashlar,ps)
                cmd="ashlar__subcmd__ps"
                ;;
            ashlar,reap)
                cmd="ashlar__subcmd__reap"
                ;;
            ashlar,report)
                cmd="ashlar__subcmd__report"
                ;;
            ashlar,reproduce)
                cmd="ashlar__subcmd__reproduce"
                ;;
            ashlar,run)
                cmd="ashlar__subcmd__run"
                ;;
            ashlar,shrink)
                cmd="ashlar__subcmd__shrink"
                ;;
            ashlar,simulate)
                cmd="ashlar__subcmd__simulate"
                ;;
            ashlar,soak)
                cmd="ashlar__subcmd__soak"
                ;;
            ashlar,top)
                cmd="ashlar__subcmd__top"
                ;;
            ashlar,tune)
                cmd="ashlar__subcmd__tune"
                ;;
            ashlar,validate)
                cmd="ashlar__subcmd__validate"
                ;;
            ashlar__subcmd__bench,bulk)
                cmd="ashlar__subcmd__bench__subcmd__bulk"
                ;;
            ashlar__subcmd__bench,checks)
                cmd="ashlar__subcmd__bench__subcmd__checks"
                ;;
            ashlar__subcmd__bench,help)
                cmd="ashlar__subcmd__bench__subcmd__help"
                ;;
            ashlar__subcmd__bench,memory)
                cmd="ashlar__subcmd__bench__subcmd__memory"
                ;;
            ashlar__subcmd__bench,programs)
                cmd="ashlar__subcmd__bench__subcmd__programs"
                ;;
            ashlar__subcmd__bench,worst)
                cmd="ashlar__subcmd__bench__subcmd__worst"
                ;;
            ashlar__subcmd__bench__subcmd__help,bulk)
                cmd="ashlar__subcmd__bench__subcmd__help__subcmd__bulk"
                ;;
            ashlar__subcmd__bench__subcmd__help,checks)
                cmd="ashlar__subcmd__bench__subcmd__help__subcmd__checks"
                ;;
            ashlar__subcmd__bench__subcmd__help,help)
                cmd="ashlar__subcmd__bench__subcmd__help__subcmd__help"
                ;;
            ashlar__subcmd__bench__subcmd__help,memory)
                cmd="ashlar__subcmd__bench__subcmd__help__subcmd__memory"
                ;;
            ashlar__subcmd__bench__subcmd__help,programs)
                cmd="ashlar__subcmd__bench__subcmd__help__subcmd__programs"
                ;;
            ashlar__subcmd__bench__subcmd__help,worst)
                cmd="ashlar__subcmd__bench__subcmd__help__subcmd__worst"
                ;;
            ashlar__subcmd__help,bench)
                cmd="ashlar__subcmd__help__subcmd__bench"
                ;;
            ashlar__subcmd__help,compare)
                cmd="ashlar__subcmd__help__subcmd__compare"
                ;;
            ashlar__subcmd__help,diff)
                cmd="ashlar__subcmd__help__subcmd__diff"
                ;;
            ashlar__subcmd__help,doctor)
                cmd="ashlar__subcmd__help__subcmd__doctor"
                ;;
            ashlar__subcmd__help,export)
                cmd="ashlar__subcmd__help__subcmd__export"
                ;;
            ashlar__subcmd__help,forward)
                cmd="ashlar__subcmd__help__subcmd__forward"
                ;;
            ashlar__subcmd__help,hackbench)
                cmd="ashlar__subcmd__help__subcmd__hackbench"
                ;;
            ashlar__subcmd__help,help)
                cmd="ashlar__subcmd__help__subcmd__help"
                ;;
            ashlar__subcmd__help,info)
                cmd="ashlar__subcmd__help__subcmd__info"
                ;;
            ashlar__subcmd__help,kernel)
                cmd="ashlar__subcmd__help__subcmd__kernel"
                ;;
            ashlar__subcmd__help,pins)
                cmd="ashlar__subcmd__help__subcmd__pins"
                ;;
            ashlar__subcmd__help,profile)
                cmd="ashlar__subcmd__help__subcmd__profile"
                ;;
            ashlar__subcmd__help,ps)
                cmd="ashlar__subcmd__help__subcmd__ps"
                ;;
            ashlar__subcmd__help,reap)
                cmd="ashlar__subcmd__help__subcmd__reap"
                ;;
            ashlar__subcmd__help,report)
                cmd="ashlar__subcmd__help__subcmd__report"
                ;;
            ashlar__subcmd__help,reproduce)
                cmd="ashlar__subcmd__help__subcmd__reproduce"
                ;;
            ashlar__subcmd__help,run)
                cmd="ashlar__subcmd__help__subcmd__run"
                ;;
            ashlar__subcmd__help,shrink)
                cmd="ashlar__subcmd__help__subcmd__shrink"
                ;;
            ashlar__subcmd__help,simulate)
                cmd="ashlar__subcmd__help__subcmd__simulate"
                ;;
            ashlar__subcmd__help,soak)
                cmd="ashlar__subcmd__help__subcmd__soak"
                ;;
            ashlar__subcmd__help,top)
                cmd="ashlar__subcmd__help__subcmd__top"
                ;;
            ashlar__subcmd__help,tune)
                cmd="ashlar__subcmd__help__subcmd__tune"
                ;;
            ashlar__subcmd__help,validate)
                cmd="ashlar__subcmd__help__subcmd__validate"
                ;;
            ashlar__subcmd__help__subcmd__bench,bulk)
                cmd="ashlar__subcmd__help__subcmd__bench__subcmd__bulk"
                ;;
            ashlar__subcmd__help__subcmd__bench,checks)
                cmd="ashlar__subcmd__help__subcmd__bench__subcmd__checks"
                ;;
            ashlar__subcmd__help__subcmd__bench,memory)
                cmd="ashlar__subcmd__help__subcmd__bench__subcmd__memory"
                ;;
            ashlar__subcmd__help__subcmd__bench,programs)
                cmd="ashlar__subcmd__help__subcmd__bench__subcmd__programs"
                ;;
            ashlar__subcmd__help__subcmd__bench,worst)
                cmd="ashlar__subcmd__help__subcmd__bench__subcmd__worst"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        ashlar)
            opts="-h -V --help --version run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help"
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
        ashlar__subcmd__bench)
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
        ashlar__subcmd__bench__subcmd__bulk)
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
        ashlar__subcmd__bench__subcmd__checks)
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
        ashlar__subcmd__bench__subcmd__help)
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
        ashlar__subcmd__bench__subcmd__help__subcmd__bulk)
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
        ashlar__subcmd__bench__subcmd__help__subcmd__checks)
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
        ashlar__subcmd__bench__subcmd__help__subcmd__help)
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
        ashlar__subcmd__bench__subcmd__help__subcmd__memory)
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
        ashlar__subcmd__bench__subcmd__help__subcmd__programs)
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
        ashlar__subcmd__bench__subcmd__help__subcmd__worst)
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
        ashlar__subcmd__bench__subcmd__memory)
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
        ashlar__subcmd__bench__subcmd__programs)
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
        ashlar__subcmd__bench__subcmd__worst)
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
        ashlar__subcmd__compare)
            opts="-h --rounds --warmup --with --option --base --no-check --json --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --rounds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --warmup)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --with)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --option)
                    COMPREPLY=($(compgen -W "engine= percpu= irq= nodes= hugepages= prefault= zone= decay= reaper= min_order= max_order= min_objects= sheaf_capacity= barn= min_partial= cpu_partial= remote_node_defrag_ratio= limit= batchcount= shared= merge= noaliencache= on_error= init_on_alloc= init_on_free= quarantine= random= random_kmalloc= guard= checks= backtrace= deepbind= control= window= profile=" -- "${cur}"))
                    return 0
                    ;;
                --base)
                    COMPREPLY=($(compgen -W "system ashlar" -- "${cur}"))
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
        ashlar__subcmd__diff)
            opts="-h --json --help"
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
        ashlar__subcmd__doctor)
            opts="-h --json --help"
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
        ashlar__subcmd__export)
            opts="-h --listen --caches --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --caches)
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
        ashlar__subcmd__forward)
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
        ashlar__subcmd__hackbench)
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
        ashlar__subcmd__help)
            opts="run compare ps info diff top export doctor tune shrink reap validate profile pins report bench forward hackbench simulate kernel reproduce soak help"
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
        ashlar__subcmd__help__subcmd__bench)
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
        ashlar__subcmd__help__subcmd__bench__subcmd__bulk)
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
        ashlar__subcmd__help__subcmd__bench__subcmd__checks)
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
        ashlar__subcmd__help__subcmd__bench__subcmd__memory)
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
        ashlar__subcmd__help__subcmd__bench__subcmd__programs)
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
        ashlar__subcmd__help__subcmd__bench__subcmd__worst)
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
        ashlar__subcmd__help__subcmd__compare)
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
        ashlar__subcmd__help__subcmd__diff)
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
        ashlar__subcmd__help__subcmd__doctor)
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
        ashlar__subcmd__help__subcmd__export)
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
        ashlar__subcmd__help__subcmd__forward)
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
        ashlar__subcmd__help__subcmd__hackbench)
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
        ashlar__subcmd__help__subcmd__help)
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
        ashlar__subcmd__help__subcmd__info)
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
        ashlar__subcmd__help__subcmd__kernel)
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
        ashlar__subcmd__help__subcmd__pins)
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
        ashlar__subcmd__help__subcmd__profile)
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
        ashlar__subcmd__help__subcmd__ps)
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
        ashlar__subcmd__help__subcmd__reap)
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
        ashlar__subcmd__help__subcmd__report)
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
        ashlar__subcmd__help__subcmd__reproduce)
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
        ashlar__subcmd__help__subcmd__run)
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
        ashlar__subcmd__help__subcmd__shrink)
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
        ashlar__subcmd__help__subcmd__simulate)
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
        ashlar__subcmd__help__subcmd__soak)
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
        ashlar__subcmd__help__subcmd__top)
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
        ashlar__subcmd__help__subcmd__tune)
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
        ashlar__subcmd__help__subcmd__validate)
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
        ashlar__subcmd__info)
            opts="-h --events --json --prometheus --save --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --save)
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
        ashlar__subcmd__kernel)
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
        ashlar__subcmd__pins)
            opts="-h --all --json --help"
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
        ashlar__subcmd__profile)
            opts="-o -h --top --by --limit --allocated --folded --pprof --seconds --start --stop --rate --timeout --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --by)
                    COMPREPLY=($(compgen -W "function site cache thread" -- "${cur}"))
                    return 0
                    ;;
                --limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --pprof)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seconds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --timeout)
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
        ashlar__subcmd__ps)
            opts="-h --json --help"
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
        ashlar__subcmd__reap)
            opts="-h --timeout --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --timeout)
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
        ashlar__subcmd__report)
            opts="-h --html --seconds --profile --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --html)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --seconds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --profile)
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
        ashlar__subcmd__reproduce)
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
        ashlar__subcmd__run)
            opts="-h --engine --option --debug --failslab --stats --profile --profile-rate --leaks --suppressions --leak-exit-code --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --engine)
                    COMPREPLY=($(compgen -W "ashlar slub slub-emu slub+ slub-o slub-2010 slub-2010-ll slub-ll slub-bulk slab slab24 slob slob-seg slob-cache debug" -- "${cur}"))
                    return 0
                    ;;
                --option)
                    COMPREPLY=($(compgen -W "engine= percpu= irq= nodes= hugepages= prefault= zone= decay= reaper= min_order= max_order= min_objects= sheaf_capacity= barn= min_partial= cpu_partial= remote_node_defrag_ratio= limit= batchcount= shared= merge= noaliencache= on_error= init_on_alloc= init_on_free= quarantine= random= random_kmalloc= guard= checks= backtrace= deepbind= control= window= profile=" -- "${cur}"))
                    return 0
                    ;;
                --debug)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --failslab)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stats)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                --profile)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --profile-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --suppressions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --leak-exit-code)
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
        ashlar__subcmd__shrink)
            opts="-h --timeout --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --timeout)
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
        ashlar__subcmd__simulate)
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
        ashlar__subcmd__soak)
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
        ashlar__subcmd__top)
            opts="-h --interval --sort --filter --once --json --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --sort)
                    COMPREPLY=($(compgen -W "name active cached memory pinned growth alloc free" -- "${cur}"))
                    return 0
                    ;;
                --filter)
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
        ashlar__subcmd__tune)
            opts="-h --timeout --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --timeout)
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
        ashlar__subcmd__validate)
            opts="-h --timeout --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --timeout)
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
    complete -F _ashlar -o nosort -o bashdefault -o default ashlar
else
    complete -F _ashlar -o bashdefault -o default ashlar
fi
