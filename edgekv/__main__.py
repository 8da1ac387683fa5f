from edgekv.cli.main import main

main()
